import { Type } from 'typebox';
import { named, shape, word } from '../../shared/shapes.ts';
import { PROBLEM_CODES } from '../problem-codes.ts';

const ProblemField = shape('ProblemField', {
  field: Type.String({ description: 'The member it is about.' }),
  code: Type.String({ description: 'What is wrong with it, for programs.' }),
  message: Type.String({ description: 'What is wrong with it, for people.' }),
});

/** Problem details (RFC 9457, formerly RFC 7807). */
const Problem = shape(
  'Problem',
  {
    type: Type.String({ description: 'A URI that names the error and answers with a page about it.' }),
    title: Type.String({ description: 'The error in a few words, the same each time.' }),
    status: Type.Integer({ description: 'The HTTP status of this answer.' }),
    detail: Type.String({ description: 'What happened this time, and what to do.' }),
    instance: Type.String({ description: 'The id of the request, also in X-Request-Id.' }),
    code: word(PROBLEM_CODES, 'Machine-readable; match this, not the words.'),
    errors: Type.Optional(Type.Array(named(ProblemField), { description: 'One entry for each member that is wrong.' })),
  },
  {
    description: 'What went wrong, as application/problem+json.',
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

export const PROBLEM_SHAPES = [ProblemField, Problem];

const MEANINGS = {
  400: 'The request is malformed or not valid; errors name every member that is wrong.',
  401: 'The key is missing, not valid or expired.',
  403: 'The key may not do this, or it was revoked.',
  404: 'There is no such thing.',
  406: 'None of the accepted media types can be given.',
  409: 'It conflicts with what is there: the idempotency key, the key or the state.',
  413: 'The body is too large.',
  415: 'The body is not application/json.',
  429: 'A limit is reached; Retry-After says when to come back.',
  500: 'Something failed that was not expected.',
  503: 'The service cannot do this now; Retry-After says when to come back.',
  504: 'It took too long.',
} as const;

export type ProblemStatus = keyof typeof MEANINGS;

const RETRY_AFTER = { 'Retry-After': { type: 'integer', minimum: 1, description: 'Seconds to wait.' } };

const problemResponse = (status: ProblemStatus) => ({
  description: MEANINGS[status],
  ...(status === 429 || status === 503 ? { headers: RETRY_AFTER } : {}),
  content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
});

/**
 * The error answers of a route beside those that every route of the door may give. Typed as nothing: errors are thrown, so
 * what a route sends stays what its success says.
 */
export function problemResponses(...statuses: ProblemStatus[]): Record<never, never> {
  return Object.fromEntries(statuses.map((status) => [status, problemResponse(status)]));
}
