import { Type } from 'typebox';
import { named, shape, word } from '../../shared/shapes.ts';
import { PROBLEM_CODES } from '../problem-codes.ts';

export const ProblemField = shape(
  'ProblemField',
  {
    field: Type.String({ description: 'The name of the field.' }),
    code: Type.String({ description: 'The problem, for programs.' }),
    message: Type.String({ description: 'The problem, for people.' }),
  },
  { description: 'One invalid field of a request.' },
);

/** Problem details (RFC 9457, formerly RFC 7807). */
export const Problem = shape(
  'Problem',
  {
    type: Type.String({ description: 'The URL of a page about the error.' }),
    title: Type.String({ description: 'A short name of the error.' }),
    status: Type.Integer({ description: 'The HTTP status of the response.' }),
    detail: Type.String({ description: 'What went wrong, and what to do.' }),
    instance: Type.String({ description: 'The id of the request, also in X-Request-Id.' }),
    code: word(PROBLEM_CODES, 'The error code, for programs.'),
    errors: Type.Optional(Type.Array(named(ProblemField), { description: 'One entry for each invalid field.' })),
  },
  {
    description: 'An error, as application/problem+json.',
    examples: [
      {
        type: 'http://localhost:8080/docs/errors/RFA_JOB_NOT_FOUND',
        title: 'Job not found',
        status: 404,
        detail: 'Job 3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11 does not exist. Check the job id.',
        instance: 'f1b7c2de-8f0c-4a52-8f5e-6d8a2c0a9b11',
        code: 'RFA_JOB_NOT_FOUND',
      },
    ],
  },
);

const MEANINGS = {
  400: 'The request is malformed or not valid; errors name every invalid field.',
  401: 'The key is missing, not valid or expired.',
  403: 'The key may not do this, it was revoked, or a web page of another site sent the request.',
  404: 'The job, client, key or webhook does not exist.',
  406: 'The Accept header allows none of the media types of this path.',
  409: 'The request conflicts with an idempotency key, a key or the current state.',
  413: 'The body is too large.',
  415: 'The body is not application/json.',
  429: 'A limit is exceeded; Retry-After says when to retry.',
  500: 'An unexpected error.',
  503: 'The service is unavailable; Retry-After says when to retry.',
  504: 'The request took too long.',
} as const;

export type ProblemStatus = keyof typeof MEANINGS;

const RETRY_AFTER = { 'Retry-After': { type: 'integer', minimum: 1, description: 'Seconds to wait.' } };

const problemResponse = (status: ProblemStatus) => ({
  description: MEANINGS[status],
  ...(status === 429 || status === 503 ? { headers: RETRY_AFTER } : {}),
  content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
});

/**
 * The error responses of a route in addition to those of every route. The return type is empty because errors are thrown:
 * only the success responses determine what a handler may return.
 */
export function problemResponses(...statuses: ProblemStatus[]): Record<never, never> {
  return Object.fromEntries(statuses.map((status) => [status, problemResponse(status)]));
}
