import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { AppError, type ErrorCode, invalidRequest, isAppError } from '../../core/errors.ts';
import type { Door, ErrorResponse, Http } from '../door.ts';
import { setConstantHeaders } from './constant-headers.ts';
import { lingerAfterResponse } from './lingering-close.ts';
import { bodyTooLarge } from './safe-json.ts';
import { issuesOf } from './validation-issues.ts';

/** The error body for addresses outside every door. */
export type ErrorBody = {
  code: string;
  message: string;
  details: readonly { field: string; code: string; message: string }[];
  request_id: string;
};

/** The HTTP status of each error that a caller can cause. Every other code of `core/errors.ts` is a 500. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  INVALID_REQUEST: 400,
  NOT_SERIALIZABLE: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  DUPLICATE: 409,
  QUOTA_EXCEEDED: 429,
  UNAVAILABLE: 503,
  SHUTTING_DOWN: 503,
  DATABASE_DISK_FULL: 503,
  TIMED_OUT: 503,
};

export const statusOf = (code: ErrorCode): number => STATUSES[code] ?? 500;

/** Receives unexpected errors, whose details the client does not see. */
export type FaultObserver = (fault: { error: unknown; requestId: string; method: string; url: string }) => void;

const RETRY_AFTER_MS = 1_000;

/** SQLSTATEs that mean that a value of the request does not fit its type or is too complex. */
const REFUSED_VALUE = /^(?:22[0-9A-Z]{3}|54001)$/;

/** Turns every error of every route into a response. */
export function installErrors(http: Http, doors: readonly Door[], onFault: FaultObserver = () => {}): void {
  http.setErrorHandler((error, request, reply) => {
    const known = toAppError(error, request);
    if (known.code === 'INTERNAL_ERROR') {
      onFault({ error, requestId: request.id, method: request.method, url: request.url });
    }
    return sendError({ error: known, request, reply, doors });
  });
  http.setNotFoundHandler((request, reply) => {
    const message = `There is no ${request.method} ${pathOf(request.url).slice(0, 200)}. /openapi.json lists every operation.`;
    return sendError({ error: new AppError('NOT_FOUND', { message }), request, reply, doors });
  });
}

export type ErrorAnswer = { error: AppError; request: FastifyRequest; reply: FastifyReply; doors: readonly Door[] };

export function sendError({ error, request, reply, doors }: ErrorAnswer): FastifyReply {
  request.problem = { code: error.code, message: error.message };
  const { status, contentType, headers = {}, body } = responseTo(error, request, doorOf(request.url, doors));
  setConstantHeaders(reply, request.id);
  reply.code(status).headers(headers).type(contentType);
  if (status === 503 || status === 429) {
    reply.header('retry-after', Math.max(1, Math.ceil((error.retryAfterMs ?? RETRY_AFTER_MS) / 1_000)));
  }
  if (hasLongUpload(request)) {
    reply.header('connection', 'close');
    lingerAfterResponse(request.raw);
  }
  // Bypasses the response schema of the route, which describes the success and could reject the error.
  return reply.serializer(JSON.stringify).send(body);
}

function responseTo(error: AppError, request: FastifyRequest, door: Door | undefined): ErrorResponse {
  if (door?.respond !== undefined) return door.respond(error, request);
  return {
    status: statusOf(error.code),
    contentType: 'application/json; charset=utf-8',
    body: door?.render(error, request.id) ?? renderPlainly(error, request.id),
  };
}

/** A connection can serve again only after the rest of the body was read. Above this size a new connection is cheaper. */
const LONG_UPLOAD_BYTES = 65_536;

function hasLongUpload({ raw, headers }: FastifyRequest): boolean {
  if (raw.complete) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > LONG_UPLOAD_BYTES;
}

export const renderPlainly = ({ code, message, details }: AppError, requestId: string): ErrorBody => ({
  code,
  message,
  details,
  request_id: requestId,
});

/** Finds the door by the prefix of the address, even when no route matches. */
export function doorOf(url: string, doors: readonly Door[]): Door | undefined {
  const path = pathOf(url);
  return doors.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`));
}

const pathOf = (url: string): string => url.split('?', 1)[0] as string;

/** Maps anything that the program or Fastify throws to an error of `core/errors.ts`. */
export function toAppError(error: unknown, request: FastifyRequest): AppError {
  // An error with a problem code is described by its door.
  if (isAppError(error)) return statusOf(error.code) === 500 && error.problem === undefined ? fault(error) : error;
  const { code, validation, validationContext, statusCode } = (error ?? {}) as FastifyError;
  if (validation !== undefined) {
    return invalidRequest(...issuesOf(validation, validationContext ?? 'body'));
  }
  const isFastifyError = typeof code === 'string' && code.startsWith('FST_ERR_');
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return bodyTooLarge(request.routeOptions.bodyLimit);
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return unsupportedMediaType(request.routeOptions.config?.takesFiles === true);
  if (isFastifyError && statusCode === 503) return new AppError('UNAVAILABLE', { retryAfterMs: RETRY_AFTER_MS });
  if (isFastifyError && statusCode === 404) return new AppError('NOT_FOUND');
  if (isFastifyError && statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new AppError('INVALID_REQUEST', { message: (error as Error).message });
  }
  if (typeof code === 'string' && REFUSED_VALUE.test(code)) return new AppError('INVALID_REQUEST', { cause: error });
  return isBrokenUpload(error)
    ? new AppError('INVALID_REQUEST', {
        message: 'The body ended before its announced length. Send the request again.',
      })
    : fault(error);
}

function unsupportedMediaType(isFile: boolean): AppError {
  if (isFile) {
    const message = 'Content-Type must be a media type such as text/csv. Leave it out if you do not know it.';
    return invalidRequest({ field: 'Content-Type', code: 'UNSUPPORTED_MEDIA_TYPE', message });
  }
  const message = 'The body must be JSON: send it with Content-Type: application/json.';
  return invalidRequest({ field: 'body', code: 'UNSUPPORTED_MEDIA_TYPE', message });
}

const isBrokenUpload = (error: unknown): boolean =>
  ['ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE'].includes(String((error as NodeJS.ErrnoException | null)?.code));

/** Hides the original message, which may name tables, files or addresses. */
function fault(cause: unknown): AppError {
  return new AppError('INTERNAL_ERROR', { cause });
}
