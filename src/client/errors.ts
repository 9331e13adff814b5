import type { APIError, ErrorDetail, QuotaError as Quota } from './api-types.ts';

export type ApiErrorFacts = {
  /** 0 when no response arrived. */
  status: number;
  code: string;
  message: string;
  details?: readonly ErrorDetail[];
  requestId?: string | null;
  retryAfterMs?: number | null;
  cause?: unknown;
};

/** A request failed, at the server or on the way. Match `code`; the wording of the message may change. */
export class ApiError extends Error {
  /** The HTTP status, or 0 when no response arrived (`NETWORK_ERROR`, `TIMED_OUT`). */
  readonly status: number;
  /** What went wrong, for programs. */
  readonly code: string;
  /** Every member of the request that is wrong. */
  readonly details: readonly ErrorDetail[];
  /** Quote it when you report the error to the operator of the server. */
  readonly requestId: string | null;
  /** When to try again. Null if the server did not say. */
  readonly retryAfterMs: number | null;

  constructor(facts: ApiErrorFacts) {
    super(facts.message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'ApiError';
    this.status = facts.status;
    this.code = facts.code;
    this.details = facts.details ?? [];
    this.requestId = facts.requestId ?? null;
    this.retryAfterMs = facts.retryAfterMs ?? null;
  }
}

/** The request is not valid; `details` name every member that is wrong. */
export class ValidationError extends ApiError {
  override readonly name = 'ValidationError';
}

/** The job does not exist, or it belongs to another org. */
export class NotFoundError extends ApiError {
  override readonly name = 'NotFoundError';
}

/** A limit is reached; `retryAfterMs` says when to retry. */
export class QuotaError extends ApiError {
  override readonly name = 'QuotaError';
  /** The limit that was reached, if the server named it. */
  readonly quota: Quota | null;

  constructor(facts: ApiErrorFacts, quota: Quota | null) {
    super(facts);
    this.quota = quota;
  }
}

/** Makes an error of a response, which may come from the server or from a proxy. */
export function errorOf(response: Response, text: string): ApiError {
  const body = bodyOf(text);
  const { status } = response;
  const facts: ApiErrorFacts = {
    status,
    code: body.code ?? `HTTP_${status}`,
    message: body.message ?? `The server returned status ${status}.`,
    details: Array.isArray(body.details) ? body.details : [],
    requestId: body.request_id ?? response.headers.get('x-request-id'),
    retryAfterMs: retryAfterMs(response.headers.get('retry-after')),
  };
  if (status === 400) return new ValidationError(facts);
  if (status === 404) return new NotFoundError(facts);
  if (status === 429) return new QuotaError(facts, body.quota ?? null);
  return new ApiError(facts);
}

function bodyOf(text: string): Partial<APIError> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

function retryAfterMs(header: string | null): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now());
}
