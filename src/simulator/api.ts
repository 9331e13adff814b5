import { Agent, type IncomingMessage, request } from 'node:http';
import { request as requestSecurely, Agent as SecureAgent } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { ExecutionType, WorkKind } from '../core/execution/kinds.ts';
import type { Accepted, CallbackPage, CallbackView, Changed, DeliveryPage, JobView, ReportRow, ReportView } from './wire.ts';

/** `ms` is the duration of the last request; `waitedMs` is the time before it, while the server was down or asked for a pause. */
export type Answer<T> = { readonly status: number; readonly body: T; readonly ms: number; readonly waitedMs: number };

export type Exchange = {
  readonly route: string;
  /** 0: the connection was refused or broke. */
  readonly status: number;
  readonly ms: number;
};

export type Credentials = { readonly clientId: string; readonly apiKey: string };

export type SubmitBody = {
  type: ExecutionType;
  work_kind: WorkKind;
  idempotency_key: string;
  execution_at?: string;
  callback?: string;
};

type Call = {
  readonly method: 'GET' | 'POST';
  /** The path with placeholders for its variable parts. */
  readonly route: string;
  readonly path: string;
  readonly key?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};
type Reply = { status: number; retryAfterMs: number; text: string };

export type ApiOptions = {
  url: string;
  onExchange?(exchange: Exchange): void;
  /** How long to repeat a request while the server is down, busy or asks for a pause. */
  patienceMs?: number;
  signal?: AbortSignal;
  /** The bootstrap token, if the server requires one to create clients. */
  bootstrapToken?: string;
};

const PAUSE_MS = 100;
const EXCHANGE_TIMEOUT_MS = 30_000;
const MAX_SOCKETS = 256;

/** A client of the execution API. It repeats a request after the pause that a busy server asks for. */
export class ExecutionApi {
  readonly #options: ApiOptions;
  readonly #agent: Agent;
  readonly #isSecure: boolean;

  constructor(options: ApiOptions) {
    this.#options = options;
    this.#isSecure = new URL(options.url).protocol === 'https:';
    const pool = { keepAlive: true, maxSockets: MAX_SOCKETS };
    this.#agent = this.#isSecure ? new SecureAgent(pool) : new Agent(pool);
  }

  async register(): Promise<Credentials> {
    const token = this.#options.bootstrapToken;
    const headers: Record<string, string> = token === undefined ? {} : { 'x-bootstrap-token': token };
    const client = await this.#send<{ client_id: string }>({ ...post('/clients', '/clients'), headers });
    const path = `/clients/${mustBe(client, 201).client_id}/keys`;
    const issued = await this.#send<{ api_key: string }>({ ...post('/clients/:client_id/keys', path), headers });
    return { clientId: client.body.client_id, apiKey: mustBe(issued, 201).api_key };
  }

  submit(key: string, body: SubmitBody): Promise<Answer<Accepted>> {
    return this.#send({ ...post('/jobs', '/jobs'), key, body });
  }

  cancel(key: string, jobId: string): Promise<Answer<Changed>> {
    return this.#send({ ...post('/jobs/:job_id/cancel', `/jobs/${jobId}/cancel`), key });
  }

  retry(key: string, jobId: string): Promise<Answer<Changed>> {
    return this.#send({ ...post('/jobs/:job_id/retry', `/jobs/${jobId}/retry`), key });
  }

  get(key: string, jobId: string): Promise<Answer<JobView>> {
    return this.#send({ ...read('/jobs/:job_id', `/jobs/${jobId}`), key });
  }

  report(key: string, jobId: string): Promise<Answer<ReportView>> {
    return this.#send({ ...read('/jobs/:job_id/report', `/jobs/${jobId}/report`), key });
  }

  /** The jobs with these ids, in any order. */
  list(key: string, ids: readonly string[]): Promise<Answer<{ jobs: JobView[] }>> {
    const query = new URLSearchParams({ ids: ids.join(','), limit: String(ids.length) });
    return this.#send({ ...read('/jobs', `/jobs?${query}`), key });
  }

  /** All callback URLs of the client's jobs, newest first. */
  async *callbacks(key: string): AsyncGenerator<CallbackView> {
    for (let cursor = ''; ; ) {
      const query = `kind=callback${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
      const page = await this.#send<CallbackPage>({ ...read('/webhooks', `/webhooks?${query}`), key });
      const { webhooks, next_cursor } = mustBe(page, 200);
      yield* webhooks;
      if (next_cursor === null) return;
      cursor = next_cursor;
    }
  }

  deliveries(key: string, webhookId: string): Promise<Answer<DeliveryPage>> {
    const path = `/webhooks/${webhookId}/deliveries?limit=200`;
    return this.#send({ ...read('/webhooks/:webhook_id/deliveries', path), key });
  }

  health(): Promise<Answer<unknown>> {
    return this.#send(read('/health', '/health'));
  }

  async *reports(key: string): AsyncGenerator<ReportRow> {
    const headers = { accept: 'application/x-ndjson' };
    const answer = await this.#open({ ...read('/reports', '/reports?events=true'), key, headers });
    if (answer.statusCode !== 200) throw new Error(`GET /v1/reports returned ${answer.statusCode}`);
    for await (const line of createInterface({ input: answer, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (line === '') continue;
      const row = JSON.parse(line);
      if (row.job_id !== undefined) yield row; // A row without a job id contains the totals.
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send<T>(call: Call): Promise<Answer<T>> {
    const beganMs = performance.now();
    for (;;) {
      const startedMs = performance.now();
      const reply = await this.#exchange(call);
      const ms = performance.now() - startedMs;
      this.#options.onExchange?.({ route: `${call.method} ${call.route}`, status: reply.status, ms });
      const waitedMs = startedMs - beganMs;
      const isOver = waitedMs > (this.#options.patienceMs ?? 60_000);
      if (!isOver && isBusy(reply)) await delay(reply.retryAfterMs, undefined, { signal: this.#options.signal });
      else return { status: reply.status, body: parse(reply.text) as T, ms, waitedMs };
    }
  }

  async #exchange(call: Call): Promise<Reply> {
    try {
      const answer = await this.#open(call);
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) text += chunk;
      const after = Number(answer.headers['retry-after'] ?? 0) * 1_000;
      return { status: answer.statusCode ?? 0, retryAfterMs: after, text };
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      return { status: 0, retryAfterMs: PAUSE_MS, text: JSON.stringify({ detail: String(error) }) };
    }
  }

  #open({ method, path, key, body, headers: own }: Call): Promise<IncomingMessage> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      accept: 'application/json',
      ...own,
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    };
    const send = this.#isSecure ? requestSecurely : request;
    const { signal } = this.#options;
    return new Promise((resolve, reject) => {
      const options = { agent: this.#agent, method, headers, signal, timeout: EXCHANGE_TIMEOUT_MS };
      const sent = send(new URL(`/v1${path}`, this.#options.url), options, resolve);
      sent.on('error', reject).on('timeout', () => sent.destroy(new Error('no response in time')));
      sent.end(text);
    });
  }
}

const post = (route: string, path: string): Call => ({ method: 'POST', route, path });
const read = (route: string, path: string): Call => ({ method: 'GET', route, path });

/** Whether to repeat the request. A 503 without Retry-After is a final response. */
const isBusy = ({ status, retryAfterMs }: Reply): boolean => status === 0 || ((status === 429 || status === 503) && retryAfterMs > 0);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function mustBe<T>({ status, body }: Answer<T>, wanted: number): T {
  if (status === wanted) return body;
  const { detail } = body as { detail?: string };
  throw new Error(`The server returned ${status || 'no response'}, expected ${wanted}${detail ? `: ${detail}` : ''}`);
}
