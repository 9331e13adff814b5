import { Type } from 'typebox';
import { duration, named, shape } from './shapes.ts';

export { answer } from '../../shared/shapes.ts';

export const ErrorDetail = shape('ErrorDetail', {
  field: Type.String({ description: 'The member it is about.' }),
  code: Type.String({ description: 'Machine-readable.' }),
  message: Type.String({ description: 'Human-readable.' }),
});

export const QuotaError = shape(
  'QuotaError',
  {
    limit: Type.String({ description: 'Which limit was exceeded.' }),
    current: Type.Integer({ description: 'Current usage.' }),
    maximum: Type.Integer({ description: 'Maximum allowed.' }),
    retry_after: duration('When to try again.'),
  },
  { description: 'The limit that was hit; beside it the answer has a Retry-After header.' },
);

/** The members of every error answer; the answers of cancel and retry carry them beside their own. */
export const ERROR_MEMBERS = {
  code: Type.String({ description: 'Machine-readable; match this, not the message.' }),
  message: Type.String({ description: 'Human-readable.' }),
  details: Type.Array(named(ErrorDetail), { description: 'One entry for each thing wrong with the request.' }),
  request_id: Type.String({ description: 'Also in the X-Request-Id header.' }),
} as const;

export const ApiError = shape(
  'APIError',
  { ...ERROR_MEMBERS, quota: Type.Optional(named(QuotaError)) },
  {
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
  400: 'The request is not valid (INVALID_REQUEST); details name every member that is wrong.',
  401: 'The key is missing or not valid (UNAUTHORIZED).',
  403: 'The key lacks a scope, or the request names another org (FORBIDDEN).',
  404: 'There is no such job in the org of the key (NOT_FOUND).',
  409: 'The job or its idempotency key does not allow it (CONFLICT, DUPLICATE).',
  429: 'A rate or resource limit is hit (QUOTA_EXCEEDED); Retry-After says when to come back.',
  500: 'Something failed that was not expected (INTERNAL_ERROR).',
  503: 'The service cannot answer now (UNAVAILABLE); Retry-After says when to come back.',
} as const;

type ErrorStatus = keyof typeof MEANINGS;

const ALWAYS: readonly ErrorStatus[] = [400, 401, 403, 429, 500, 503];

const errorResponse = (status: ErrorStatus) => named(ApiError, { description: MEANINGS[status] });

/** The error answers every operation may give, and those named. */
export function errorResponses<const Status extends ErrorStatus = never>(...more: Status[]) {
  return Object.fromEntries([...ALWAYS, ...more].map((status) => [status, errorResponse(status)])) as Record<
    ErrorStatus & number,
    ReturnType<typeof errorResponse>
  >;
}
