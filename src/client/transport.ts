import { ApiError, errorOf } from './errors.ts';

/** Options of a client. */
export type ClientOptions = {
  /** The address of the server, for example `http://127.0.0.1:8484`. */
  baseUrl: string | URL;
  /** The API key of an org. */
  apiKey: string;
  /** Replaces the global fetch. */
  fetch?: typeof fetch;
  /** How often a failed request is repeated. Default 4. */
  retries?: number;
  /** Milliseconds that one attempt may take. Default 30 000. */
  timeout?: number;
};

/** Options of one call. */
export type CallOptions = {
  /** Aborts the call. */
  signal?: AbortSignal;
};

type QueryValue = string | number | boolean | readonly (string | number | boolean)[] | undefined;

export type Call = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: { readonly [name: string]: QueryValue };
  body?: unknown;
  /** Bytes in the place of a JSON body. */
  content?: Blob;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Repeating the call could do the work twice. Repeat it only when the server rejected it before doing anything. */
  isUnrepeatable?: boolean;
  /** Error statuses that count as results. */
  accepts?: readonly number[];
};

const PREFIX = '/queue/v1';
const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 5_000;
const MAX_RETRY_AFTER_MS = 60_000;
const TEMPORARY = new Set([502, 503, 504]);

/** Sends requests with the API key and a timeout, and repeats them after temporary errors. */
export class Transport {
  readonly retries: number;
  readonly #fetch: typeof fetch;
  readonly #base: string;
  readonly #apiKey: string;
  readonly #timeoutMs: number;

  constructor(options: ClientOptions) {
    this.retries = options.retries ?? 4;
    this.#timeoutMs = options.timeout ?? 30_000;
    this.#apiKey = options.apiKey;
    this.#base = String(options.baseUrl).replace(/\/+$/, '');
    // Browsers throw when fetch is called as a method of another object.
    const given = options.fetch ?? fetch;
    this.#fetch = (input, init) => given(input, init);
  }

  json<T>(call: Call): Promise<T> {
    return this.#repeating(call, () => this.#once<T>(call));
  }

  /** Sends or receives bytes, however long they take. Repeats the call until a response begins. */
  stream(call: Call): Promise<Response> {
    return this.#repeating(call, async () => {
      try {
        const response = await this.#send(call, call.signal);
        if (!response.ok) throw errorOf(response, await response.text());
        return response;
      } catch (error) {
        if (error instanceof ApiError) throw error;
        call.signal?.throwIfAborted();
        throw networkError(error);
      }
    });
  }

  async #repeating<T>(call: Call, send: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await send();
      } catch (error) {
        if (!(error instanceof ApiError) || attempt >= this.retries || !mayRepeat(error, call)) throw error;
        await pause(delayOf(error, attempt), call.signal);
      }
    }
  }

  /** Opens an event stream. The caller aborts it by `signal` and reconnects if needed. */
  async open(call: Call & { signal: AbortSignal }): Promise<Response> {
    const response = await this.#send({ ...call, headers: { accept: 'text/event-stream', ...call.headers } }, call.signal);
    if (!response.ok) throw errorOf(response, await response.text().catch(() => ''));
    return response;
  }

  async #once<T>(call: Call): Promise<T> {
    const deadline = new Deadline(this.#timeoutMs, call.signal);
    try {
      const response = await this.#send(call, deadline.signal);
      const text = await response.text();
      if (!response.ok && call.accepts?.includes(response.status) !== true) throw errorOf(response, text);
      return parse<T>(response, text);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      call.signal?.throwIfAborted();
      throw deadline.hasPassed ? timedOut(this.#timeoutMs) : networkError(error);
    } finally {
      deadline.clear();
    }
  }

  #send({ method, path, query, body, content, headers }: Call, signal: AbortSignal | undefined): Promise<Response> {
    return this.#fetch(`${this.#base}${PREFIX}${path}${searchOf(query)}`, {
      method,
      headers: {
        accept: 'application/json',
        authorization: `Bearer ${this.#apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(content === undefined ? {} : { body: content }),
      signal: signal ?? null,
    });
  }
}

function parse<T>(response: Response, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const message = 'The response is not JSON. Check that baseUrl is the address of a Millrace server.';
    throw new ApiError({ status: response.status, code: 'INVALID_ANSWER', message, cause });
  }
}

function searchOf(query: Call['query'] = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? value : [value]) search.append(name, String(each));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

/** Whether a repeated request may succeed. */
export const mayPass = ({ status, code }: ApiError): boolean =>
  status === 429 || TEMPORARY.has(status) || code === 'NETWORK_ERROR' || code === 'TIMED_OUT';

function mayRepeat(error: ApiError, call: Call): boolean {
  if ((error.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) return false;
  return call.isUnrepeatable === true ? error.status === 429 : mayPass(error);
}

/** Full jitter, so that clients that lost their connection together do not reconnect together. */
export function delayOf(error: ApiError | null, attempt: number): number {
  const spreadMs = Math.random() * Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return error?.retryAfterMs == null ? spreadMs : error.retryAfterMs + spreadMs;
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

const timedOut = (ms: number): ApiError => new ApiError({ status: 0, code: 'TIMED_OUT', message: `No response arrived within ${ms} ms.` });

export const networkError = (cause: unknown): ApiError =>
  new ApiError({
    status: 0,
    code: 'NETWORK_ERROR',
    message: 'The server could not be reached. Check baseUrl and that the server is running.',
    cause,
  });

/** Aborts after a timeout or when the caller aborts. `hasPassed` is true after a timeout. */
export class Deadline {
  hasPassed = false;
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timer: ReturnType<typeof setTimeout> | null;
  readonly #onAbort = () => this.#controller.abort(this.#outer?.reason);

  constructor(ms: number, outer?: AbortSignal) {
    this.#outer = outer;
    if (outer?.aborted) this.#controller.abort(outer.reason);
    outer?.addEventListener('abort', this.#onAbort, { once: true });
    const expire = () => {
      this.hasPassed = true;
      this.#controller.abort();
    };
    this.#timer = Number.isFinite(ms) ? setTimeout(expire, ms) : null;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(): void {
    this.#controller.abort();
  }

  clear(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#outer?.removeEventListener('abort', this.#onAbort);
  }
}
