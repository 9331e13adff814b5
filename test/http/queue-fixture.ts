/** The queue API on a real socket, with real keys, a worker in the same process, and every exchange held to the document. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { AdmitChild } from '../../src/engine/submit/spawner.ts';
import type { Handler, Registration } from '../../src/engine/work/registry.ts';
import { buildServer, type ServerOptions } from '../../src/http/server.ts';
import type { Scope } from '../../src/http/shared/identity.ts';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { type TestLedger, useLedger } from '../ledger/fixture.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { Contract, type OpenApi } from './contract.ts';
import { Listening } from './listening.ts';
import { waitLonger } from './patient-pools.ts';
import { queueDoor } from './queue-door.ts';

export const QUEUE = '/queue/v1';
const ACT = 'act';
const NO_LIMIT = 1_000_000;

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
export type Answer = { status: number; body: any; headers: Headers };

export type Query = Record<string, string | readonly string[]>;

/** One caller: an org and a key of it. */
export class Caller {
  readonly orgId: string;
  readonly #queue: QueueServer;
  readonly #key: string | null;
  readonly #url: string | null;

  constructor(queue: QueueServer, orgId: string, key: string | null, url: string | null = null) {
    this.#queue = queue;
    this.#url = url;
    this.orgId = orgId;
    this.#key = key;
  }

  /** The same key at another server. */
  at(url: string): Caller {
    return new Caller(this.#queue, this.orgId, this.#key, url);
  }

  /** The same org through a key with these scopes. */
  async with(...scopes: Scope[]): Promise<Caller> {
    return new Caller(this.#queue, this.orgId, await this.#queue.keyOf(this.orgId, scopes));
  }

  /** The same org through a key that is bound to a project and may do everything there. */
  async inProject(projectId: string): Promise<Caller> {
    return new Caller(this.#queue, this.orgId, await this.#queue.keyOf(this.orgId, API_KEY_SCOPES, projectId));
  }

  get(path: string, query: Query = {}): Promise<Answer> {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) for (const each of [value].flat()) search.append(name, each);
    return this.send('GET', path, undefined, { search: search.size === 0 ? '' : `?${search}` });
  }

  post(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send('POST', path, body, { headers });
  }

  patch(path: string, body: unknown): Promise<Answer> {
    return this.send('PATCH', path, body);
  }

  async send(
    method: string,
    path: string,
    sent?: unknown,
    { headers = {}, search = '' }: { headers?: Record<string, string>; search?: string } = {},
  ): Promise<Answer> {
    const text = sent === undefined ? undefined : JSON.stringify(sent);
    const response = await fetch(`${this.#url ?? this.#queue.url}${QUEUE}${path}${search}`, {
      method,
      headers: {
        ...(this.#key === null ? {} : { authorization: `Bearer ${this.#key}` }),
        ...(text === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: text,
    });
    const body: unknown = await response.json();
    // The body as it arrived: what JSON has no word for was left out of it, or became null.
    const arrived = text === undefined ? undefined : JSON.parse(text);
    this.#queue.contract.check({ method, path: `${QUEUE}${path}`, sent: arrived, status: response.status, body });
    return { status: response.status, body, headers: response.headers };
  }

  /** Opens a stream of events, lets something happen, and answers with the data of the first event. */
  async firstEvent(path: string, happen: () => Promise<unknown>): Promise<Answer> {
    const abort = new AbortController();
    const headers: Record<string, string> = this.#key === null ? {} : { authorization: `Bearer ${this.#key}` };
    const response = await fetch(`${this.#queue.url}${QUEUE}${path}`, { headers, signal: abort.signal });
    const { status } = response;
    const body: unknown = status === 200 ? await firstData(response, happen) : await response.json();
    abort.abort();
    this.#queue.contract.check({ method: 'GET', path: `${QUEUE}${path}`, sent: undefined, status, body });
    return { status, body, headers: response.headers };
  }

  /** Submits a job, of a type of its own unless told, and answers its id. */
  async submit(submission: object = {}): Promise<string> {
    const { status, body } = await this.post('/jobs', { type: `type-${randomId()}`, payload: {}, ...submission });
    if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`);
    return body.job_id;
  }

  /** Submits a job that does what the handler says. */
  act(handler: Handler, submission: object = {}): Promise<string> {
    return this.submit(this.#queue.acting(handler, submission));
  }

  async state(jobId: string): Promise<string> {
    return (await this.get(`/jobs/${jobId}`)).body.state;
  }

  /** Answers the job with its result once it is in one of these states. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
  async reached(jobId: string, ...states: string[]): Promise<any> {
    await until(
      `job ${jobId} is ${states.join(' or ')}`,
      () => this.state(jobId),
      (state) => states.includes(state),
    );
    return (await this.get(`/jobs/${jobId}`, { include_result: 'true', include_history: 'true' })).body;
  }
}

export class QueueServer {
  readonly ledger: TestLedger;
  engine!: Engine;
  url!: string;
  contract!: Contract;
  /** The limit on jobs that handlers spawn; none unless a test sets it. */
  admitChild?: AdmitChild;
  readonly #handlers = new Map<string, Handler>();
  readonly #listening = new Listening();

  constructor(ledger: TestLedger) {
    this.ledger = ledger;
  }

  async open(registrations: readonly Registration[]): Promise<void> {
    waitLonger(this.ledger.db);
    this.engine = createEngine({
      database: this.ledger.db,
      profile: PROFILES.gopherqueue,
      admitChild: async (child) => this.admitChild?.(child),
    });
    await this.engine.open();
    for (const registration of [{ type: ACT, handler: this.#act }, ...registrations]) this.engine.registry.register(registration);
    await this.engine.start();
    this.url = await this.listen();
    const document = (await (await fetch(`${this.url}/openapi.json`)).json()) as OpenApi;
    this.contract = new Contract(document);
  }

  /** Another server on the same engine. Answers its address. */
  async listen(options: Partial<ServerOptions> = {}): Promise<string> {
    const { engine } = this;
    const database = engine.database;
    const http = await buildServer({
      ...{ engine, doors: [queueDoor], version: '0.0.0-test' },
      authenticator: new KeyAuthenticator({ database }),
      limiter: new OrgRateLimiter({ database, requestsPerMinute: NO_LIMIT }),
      ...options,
    });
    return this.#listening.add(http);
  }

  async close(): Promise<void> {
    await this.#listening.close();
    await this.engine?.stop();
  }

  async keyOf(orgId: string, scopes: readonly Scope[], projectId: string | null = null): Promise<string> {
    if (projectId !== null) await newProject(this.ledger.db, orgId, projectId);
    return (await createKey(this.ledger.db, { orgId, scopes, projectId })).key;
  }

  /** A new org, through a key that may do everything. */
  async caller(): Promise<Caller> {
    const orgId = await this.ledger.newOrg();
    return new Caller(this, orgId, await this.keyOf(orgId, API_KEY_SCOPES));
  }

  nobody(): Caller {
    return new Caller(this, '', null);
  }

  acting(handler: Handler, submission: object = {}): object {
    const name = randomId();
    this.#handlers.set(name, handler);
    return {
      type: ACT,
      backoff: { initial_delay: 'PT0.001S', jitter: false },
      ...submission,
      payload: { handler: name },
    };
  }

  readonly #act: Handler = (context, payload) => {
    const { handler } = payload as { handler: string };
    return (this.#handlers.get(handler) as Handler)(context, {});
  };
}

/** The stream has begun when its first line is there: nothing that happens from then on is missed. */
async function firstData(response: Response, happen: () => Promise<unknown>): Promise<unknown> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = decoder.decode((await reader.read()).value, { stream: true });
  await happen();
  for (;;) {
    const data = /^data: ?(\{.*)$/m.exec(text);
    if (data !== null && text.indexOf('\n', data.index) > 0) return JSON.parse(data[1] as string);
    const { value, done } = await reader.read();
    if (done) throw new Error(`the stream ended without an event: ${text}`);
    text += decoder.decode(value, { stream: true });
  }
}

export const randomId = (): string => randomBytes(6).toString('hex');

/** Call once at the top of a test file. */
export function useQueue(...registrations: Registration[]): QueueServer {
  const queue = new QueueServer(useLedger());
  beforeAll(() => queue.open(registrations));
  afterAll(() => queue.close());
  return queue;
}
