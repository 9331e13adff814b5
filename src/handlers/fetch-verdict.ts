/** Why a try of a download failed, and what may follow. */
export type FetchFailure = {
  /** `last_error.code` of the resource. */
  readonly code: string;
  readonly message: string;
  readonly isPermanent: boolean;
  /** Whether another proxy pool may do better at once. */
  readonly triesNextPool: boolean;
  /** Whether the proxy itself did not work. */
  readonly blamesProxy: boolean;
  readonly retryAfterMs?: number;
};

/** Throws across the steps of a try; the loop over the pools catches it. */
export class FetchError extends Error {
  readonly failure: FetchFailure;

  constructor(failure: FetchFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

const FORBIDDEN = 403;
const PROXY_LOGIN = 407;
/** Statuses of the client that a later attempt may not get: timeout, too early, too many requests. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);
const MAX_RETRY_AFTER_MS = 3_600_000;

type Response = { readonly status: number; readonly headers: Readonly<Record<string, string>> };

/** For every response that has no content to store. */
export function failureOfStatus({ status, headers }: Response, nowMs: number): FetchFailure {
  const isPassing = PASSING.has(status) || status >= 500;
  const retryAfterMs = readRetryAfter(headers['retry-after'], nowMs);
  return {
    code: `HTTP_${status}`,
    message: `the server responded with status ${status}`,
    isPermanent: !isPassing,
    triesNextPool: isPassing || status === FORBIDDEN || status === PROXY_LOGIN,
    blamesProxy: status === PROXY_LOGIN,
    ...(isPassing && retryAfterMs !== null ? { retryAfterMs } : {}),
  };
}

/** Accepts seconds or a date, up to one hour. Returns null for anything else. */
function readRetryAfter(text: string | undefined, nowMs: number): number | null {
  if (text === undefined) return null;
  const trimmed = text.trim();
  const ms = /^\d{1,10}$/.test(trimmed)
    ? Number(trimmed) * 1_000
    : /^[A-Z][a-z]+,? /.test(trimmed)
      ? Date.parse(trimmed) - nowMs
      : Number.NaN;
  return Number.isNaN(ms) ? null : Math.min(MAX_RETRY_AFTER_MS, Math.max(0, Math.round(ms)));
}

const REFUSALS: ReadonlyMap<string, string> = new Map([
  ['ADDRESS', 'ADDRESS_REFUSED'],
  ['SCHEME', 'UNSUPPORTED_SCHEME'],
]);

/** No connection was opened, because of the URL or its address. */
export function failureOfRefusal({ code, message }: { readonly code: string; readonly message: string }): FetchFailure {
  return permanent(REFUSALS.get(code) ?? 'INVALID_URL', message);
}

type Fault = { readonly code: string; readonly message: string; readonly blamesTarget?: boolean };

const BEFORE_RESPONSE: ReadonlyMap<string, string> = new Map([
  ['TLS', 'TLS_FAILED'],
  ['TIMEOUT', 'TIMEOUT'],
  ['IDLE', 'IDLE_TIMEOUT'],
  ['PROXY', 'PROXY_FAILED'],
]);
const FINAL: ReadonlySet<string> = new Set(['TOO_LARGE', 'TOO_MANY_REDIRECTS']);

/** The connection failed, or a limit was exceeded. A body that ends too early is truncated. */
export function failureOfFault({ code, message, blamesTarget = false }: Fault, phase: 'response' | 'body'): FetchFailure {
  if (FINAL.has(code)) return permanent(code, message);
  const known = BEFORE_RESPONSE.get(code) ?? (phase === 'body' ? 'TRUNCATED' : 'CONNECTION_FAILED');
  // Nothing is left of the time of a download that timed out.
  return temporary(known, message, { triesNextPool: code !== 'TIMEOUT', blamesProxy: code === 'PROXY' && !blamesTarget });
}

const UNUSABLE: ReadonlySet<string> = new Set(['INVALID_NAME']);

/** The object store failed. Its operator can repair everything but a name. */
function failureOfStore(error: unknown): FetchFailure {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const message = error instanceof Error ? error.message : String(error);
  if (UNUSABLE.has(code)) return permanent(code, message);
  return temporary('STORAGE_UNAVAILABLE', message);
}

export async function storing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new FetchError(failureOfStore(error));
  }
}

export function permanent(code: string, message: string): FetchFailure {
  return { code, message, isPermanent: true, triesNextPool: false, blamesProxy: false };
}

export function temporary(code: string, message: string, rest: Partial<FetchFailure> = {}): FetchFailure {
  return { code, message, isPermanent: false, triesNextPool: false, blamesProxy: false, ...rest };
}
