import { Type } from 'typebox';
import { type AppError, type ErrorCode, type Issue, isAppError } from '../../core/errors.ts';
import type { ErrorResponse } from '../door.ts';
import { statusOf } from './errors.ts';
import { shape } from './shapes.ts';

export const NestedError = shape(
  'NestedError',
  {
    error: Type.Object(
      {
        code: Type.String({ description: 'What went wrong, for programs.' }),
        message: Type.String({ description: 'What went wrong, and what to do, for people.' }),
        request_id: Type.String({ description: 'The id of the request, as in the header X-Request-Id.' }),
        details: Type.Optional(
          Type.Array(Type.Object({ field: Type.String(), code: Type.String(), message: Type.String() }), {
            description: 'One entry for each problem of the request.',
          }),
        ),
      },
      { additionalProperties: false },
    ),
  },
  { description: 'An error response of /jobs and /operators.' },
);

/** What a door calls an error, if its words differ from those of the core. */
export type NestedWords = {
  readonly codes: Partial<Record<ErrorCode, string>>;
  readonly statuses?: Partial<Record<ErrorCode, number>>;
  /** Names of members that differ from those of the core. */
  readonly fields?: ReadonlyMap<string, string>;
};

const isTooLarge = ({ details }: AppError): boolean => details.some(({ field, code }) => field === 'body' && code === 'PAYLOAD_TOO_LARGE');

/** `{ "error": { "code", "message", "request_id" } }`, with the problems of the request if there are some. */
export function nestedError(error: AppError, requestId: string, { codes, statuses = {}, fields }: NestedWords): ErrorResponse {
  const isLarge = isAppError(error, 'INVALID_REQUEST') && isTooLarge(error);
  const status = isLarge ? 413 : (statuses[error.code] ?? statusOf(error.code));
  const own = error.problem?.startsWith('RFA_') === false ? error.problem : undefined;
  const code = isLarge ? 'PAYLOAD_TOO_LARGE' : (own ?? codes[error.code] ?? (status === 500 ? 'INTERNAL_ERROR' : error.code));
  // The name of an unknown member is that of the caller.
  const nameOf = ({ field, code: problem }: Issue) => (problem === 'UNKNOWN_MEMBER' ? field : (fields?.get(field) ?? field));
  const details = error.details.map((issue) => ({ field: nameOf(issue), code: issue.code, message: issue.message }));
  return {
    status,
    contentType: 'application/json; charset=utf-8',
    body: { error: { code, message: sentence(error.message), request_id: requestId, ...(details.length === 0 ? {} : { details }) } },
  };
}

/** Messages can be clauses. */
const sentence = (message: string): string => (/[.!?)]$/.test(message) ? message : `${message}.`);
