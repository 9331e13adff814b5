import { Type } from 'typebox';
import { duration, named, shape } from './shapes.ts';

export { answer } from '../../shared/shapes.ts';

export const ErrorDetail = shape(
  'ErrorDetail',
  {
    field: Type.String({ description: 'The name of the field.' }),
    code: Type.String({ description: 'Machine-readable.' }),
    message: Type.String({ description: 'Human-readable.' }),
  },
  { description: 'One problem of a request.' },
);

export const QuotaError = shape(
  'QuotaError',
  {
    limit: Type.String({ description: 'Which limit was exceeded.' }),
    current: Type.Integer({ description: 'Current usage.' }),
    maximum: Type.Integer({ description: 'Maximum allowed.' }),
    retry_after: duration('When to try again.'),
  },
  { description: 'The exceeded limit. The response also has a Retry-After header.' },
);

/** The members of every error response. The 404 of cancel and retry has them in addition to its own. */
export const ERROR_MEMBERS = {
  code: Type.String({ description: 'Machine-readable; match this, not the message.' }),
  message: Type.String({ description: 'Human-readable.' }),
  details: Type.Array(named(ErrorDetail), { description: 'One entry for each problem of the request.' }),
  request_id: Type.String({ description: 'Also in the X-Request-Id header.' }),
} as const;

export const ApiError = shape(
  'APIError',
  { ...ERROR_MEMBERS, quota: Type.Optional(named(QuotaError)) },
  {
    description: 'An error response.',
    examples: [
      {
        code: 'INVALID_REQUEST',
        message: 'The submission is not valid: type is required.',
        details: [{ field: 'type', code: 'REQUIRED', message: 'type is required' }],
        request_id: 'f1b7c2de-8f0c-4a52-8f5e-6d8a2c0a9b11',
      },
    ],
  },
);

const MEANINGS = {
  400: 'The request is not valid (INVALID_REQUEST); details name every invalid field.',
  401: 'The key is missing or not valid (UNAUTHORIZED).',
  403: 'The key lacks a scope, the request names another org, or a web page of another site sent it (FORBIDDEN).',
  404: 'The org of the key has no such job (NOT_FOUND).',
  409: 'The state of the job or its idempotency key does not allow the request (CONFLICT, DUPLICATE).',
  429: 'A limit is exceeded (QUOTA_EXCEEDED); Retry-After says when to retry.',
  500: 'An unexpected error (INTERNAL_ERROR).',
  503: 'The service is unavailable (UNAVAILABLE), or its disk is full (DATABASE_DISK_FULL); Retry-After says when to retry.',
} as const;

type ErrorStatus = keyof typeof MEANINGS;

const ALWAYS: readonly ErrorStatus[] = [400, 401, 403, 429, 500, 503];

const errorResponse = (status: ErrorStatus) => named(ApiError, { description: MEANINGS[status] });

/** The error responses of every operation, and the given ones. */
export function errorResponses<const Status extends ErrorStatus = never>(...more: Status[]) {
  return Object.fromEntries([...ALWAYS, ...more].map((status) => [status, errorResponse(status)])) as Record<
    ErrorStatus & number,
    ReturnType<typeof errorResponse>
  >;
}
