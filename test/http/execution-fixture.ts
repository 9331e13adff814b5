/** The execution API on a real socket, with a worker in the same process, and every exchange held to the document. */
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import type { AddressPolicy } from '../../src/core/address-policy.ts';
import type { ExecutionSettings } from '../../src/core/execution/settings.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { DEFAULT_LIMITS } from '../../src/core/submission.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { buildServer, type ServerOptions } from '../../src/http/server.ts';
import type { Scope } from '../../src/http/shared/identity.ts';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import { composeExecution } from '../../src/platform/execution-api.ts';
import { addExecutionCrew } from '../../src/platform/execution-crew.ts';
import { lookUpIn, observeExecution } from '../../src/platform/execution-telemetry.ts';
import { observeProcess } from '../../src/platform/process-observer.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import type { ExecutionContext, WebhookParts } from '../../src/services/execution/context.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { Telemetry } from '../../src/telemetry/telemetry.ts';
import { SinkTracer, type Span } from '../../src/telemetry/trace.ts';
import { type TestLedger, useLedger } from '../ledger/fixture.ts';
import { makePatient } from '../ledger/patient.ts';
import { until } from '../until.ts';
import { Contract, type OpenApi } from './contract.ts';
import { Listening } from './listening.ts';
import { LongJobs } from './long-jobs.ts';
import { queueDoor } from './queue-door.ts';

const V1 = '/v1';
const NO_LIMIT = 1_000_000;

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
export type Answer = { status: number; body: any; headers: Headers };
export type Query = Record<string, string | readonly string[]>;
export type SendOptions = { headers?: Record<string, string>; search?: string };

/** What a test may set: the settings of the API, and below them what serves it. */
export type ListenOptions = Partial<ServerOptions> & { settings?: Partial<ExecutionSettings> };

/** One client of the API and a key of it; without a key, anybody. */
export class TestClient {
  readonly clientId: string;
  readonly key: string | null;
  readonly #server: ExecutionServer;
  readonly #url: string;

  constructor(server: ExecutionServer, parts: { clientId: string; key: string | null; url?: string }) {
    this.#server = server;
    this.clientId = parts.clientId;
    this.key = parts.key;
    this.#url = parts.url ?? server.url;
  }

  /** The same client through another key, such as one with other scopes. */
  async with(...scopes: Scope[]): Promise<TestClient> {
    const { clientId } = this;
    const { key } = await createKey(this.#server.ledger.db, { orgId: clientId, scopes });
    return this.holding(key);
  }

  holding(key: string | null): TestClient {
    return new TestClient(this.#server, { clientId: this.clientId, key, url: this.#url });
  }

  /** The same client at another server. */
  at(url: string): TestClient {
    return new TestClient(this.#server, { clientId: this.clientId, key: this.key, url });
  }

  get(path: string, query: Query = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) for (const each of [value].flat()) search.append(name, each);
    return this.send('GET', path, undefined, { headers, search: search.size === 0 ? '' : `?${search}` });
  }

  post(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send('POST', path, body, { headers });
  }

  /** A string is sent as it is, anything else as JSON. Answers that are not JSON are text. */
  async send(method: string, path: string, sent?: unknown, options: SendOptions = {}): Promise<Answer> {
    const response = await this.raw(method, path, sent, options);
    const text = await response.text();
    const contentType = (response.headers.get('content-type') ?? '').split(';')[0] as string;
    const body: unknown = contentType.endsWith('json') && contentType !== 'application/x-ndjson' ? JSON.parse(text) : text;
    const exchange = { method, path: V1 + path, sent, status: response.status, contentType };
    // A wrong method or path is in no document; what it is answered is still of the shape of all errors.
    const { contract } = this.#server;
    const lines = contentType === 'application/x-ndjson' ? text.split('\n').slice(0, -1) : null;
    if (!contract.has(method, V1 + path)) contract.checkShape('Problem', body);
    else if (lines === null) contract.check({ ...exchange, body });
    else for (const line of lines) contract.check({ ...exchange, body: JSON.parse(line) });
    return { status: response.status, body, headers: response.headers };
  }

  /** The answer as it arrives, such as a stream; nothing is checked. */
  raw(method: string, path: string, sent?: unknown, { headers = {}, search = '' }: SendOptions = {}): Promise<Response> {
    return fetch(`${this.#url}${V1}${path}${search}`, {
      method,
      headers: {
        ...(this.key === null ? {} : { authorization: `Bearer ${this.key}` }),
        ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: sent === undefined || typeof sent === 'string' ? (sent as string | undefined) : JSON.stringify(sent),
    });
  }

  /** Submits a job, a quick success unless told, and answers its id. */
  async submit(request: object = {}): Promise<string> {
    const { status, body } = await this.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', ...request });
    if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`);
    return body.job_id;
  }

  async state(jobId: string): Promise<string> {
    return (await this.get(`/jobs/${jobId}`)).body.state;
  }

  /** Answers the job once it is in one of these states. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
  async reached(jobId: string, ...states: string[]): Promise<any> {
    await until(
      `job ${jobId} is ${states.join(' or ')}`,
      () => this.state(jobId),
      (state) => states.includes(state),
    );
    return (await this.get(`/jobs/${jobId}`)).body;
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
  async report(jobId: string): Promise<any> {
    let answer: Answer | undefined;
    // A busy machine may answer 503, and a client retries that.
    await until('the report can be read', async () => {
      answer = await this.get(`/jobs/${jobId}/report`);
      return answer.status !== 503;
    });
    return answer?.body;
  }

  /** The events of an ended job as text: `QUEUED>ASSIGNED:job.assigned`. */
  async path(jobId: string): Promise<string[]> {
    type Event = { prev_state: string | null; next_state: string; event_name: string };
    const { events } = (await this.report(jobId)) as { events: Event[] };
    return events.map(({ prev_state, next_state, event_name }) => `${prev_state ?? ''}>${next_state}:${event_name}`);
  }
}

export class ExecutionServer {
  readonly ledger: TestLedger;
  /** Every line logged and every span ended so far. */
  readonly logs: Record<string, unknown>[] = [];
  readonly spans: Span[] = [];
  readonly telemetry: Telemetry;
  readonly #overrides: Partial<ExecutionSettings>;
  readonly #listening = new Listening();
  readonly longJobs = new LongJobs();
  engine!: Engine;
  context!: ExecutionContext;
  settings!: ExecutionSettings;
  url!: string;
  contract!: Contract;
  /** Which addresses jobs may name as callbacks; any unless told. */
  addresses?: AddressPolicy;
  /** Where webhooks are sent; nothing is sent unless told. */
  webhooks?: WebhookParts;

  constructor(ledger: TestLedger, overrides: Partial<ExecutionSettings>) {
    this.ledger = ledger;
    this.#overrides = overrides;
    this.telemetry = {
      metrics: new Metrics(),
      log: createLog((line) => this.logs.push(line as Record<string, unknown>)),
      tracer: new SinkTracer((span) => this.spans.push(span)),
    };
  }

  async open(): Promise<void> {
    this.settings = { ...defaultSettings(), ...this.#overrides };
    this.engine = await this.newEngine();
    await this.engine.start();
    this.url = await this.listen();
    this.contract = new Contract((await (await fetch(`${this.url}/openapi.json`)).json()) as OpenApi);
  }

  /** An engine on the same ledger that knows the work, not yet at work. */
  async newEngine(database: Database = this.ledger.db): Promise<Engine> {
    const { addresses } = this;
    const limits = addresses === undefined ? undefined : { ...DEFAULT_LIMITS, addresses };
    const engine = createEngine({ database, profile: PROFILES.gopherqueue, limits });
    await engine.open();
    const { timeScale, activeJobs } = this.settings;
    addExecutionCrew(this.longJobs.crewOf(engine), { timeScale, activeJobs, slots: 50 });
    observeExecution(engine.events, this.telemetry, lookUpIn(engine));
    observeProcess(engine.events, database, this.telemetry);
    return engine;
  }

  /** `none`: jobs wait until it is started again. */
  async worker(action: 'start' | 'none'): Promise<void> {
    if (action === 'start') await this.engine.start();
    else await this.engine.stop();
  }

  /** Another server, on the same engine unless it is given another. Answers its address. */
  async listen({ settings: overrides, ...options }: ListenOptions = {}): Promise<string> {
    const engine = options.engine ?? this.engine;
    const { database } = engine;
    const settings = { ...this.settings, ...overrides };
    const authenticator = options.authenticator ?? new KeyAuthenticator({ database });
    const { telemetry, webhooks } = this;
    const { context, door } = composeExecution({ engine, settings, telemetry, authenticator, webhooks });
    this.context ??= context;
    const http = await buildServer({
      ...{ engine, doors: [queueDoor, door], version: '0.0.0-test', authenticator, telemetry, metricsFreshMs: 0 },
      limiter: new OrgRateLimiter({ database, requestsPerMinute: NO_LIMIT }),
      ...options,
    });
    return this.#listening.add(http);
  }

  async close(): Promise<void> {
    await this.#listening.close();
    await this.engine?.stop();
  }

  /** A new client with its first key, made through the API. */
  async client(): Promise<TestClient> {
    const created = await this.nobody().post('/clients');
    const clientId: string = created.body.client_id;
    const issued = await this.nobody().post(`/clients/${clientId}/keys`, {});
    if (issued.status !== 201) throw new Error(`${issued.status} ${JSON.stringify(issued.body)}`);
    return new TestClient(this, { clientId, key: issued.body.api_key });
  }

  /** A new org with a key that an operator gave it, for both APIs. */
  async org(): Promise<TestClient> {
    const clientId = await this.ledger.newOrg();
    const { key } = await createKey(this.ledger.db, { orgId: clientId });
    return new TestClient(this, { clientId, key });
  }

  nobody(): TestClient {
    return new TestClient(this, { clientId: '', key: null });
  }
}

/**
 * What the program uses when nothing is set, only faster, and without the limit on open calls. The time limit of a job is not made shorter:
 * a busy machine would exceed it. The kind that exceeds it says so itself.
 */
function defaultSettings(): ExecutionSettings {
  const environment = { MILLRACE_SIMULATION_TIME_SCALE: '0.01', MILLRACE_AUTH_OPEN_CALLS_PER_MINUTE: String(NO_LIMIT) };
  const { execution } = loadConfig({ environment, folder: tmpdir() }).config;
  const backoff = { ...execution.profile.backoff, initialDelayMs: 10, maxDelayMs: 50 };
  return { ...execution, profile: { ...execution.profile, backoff, timeoutMs: PROFILES.forgerun.timeoutMs } };
}

export const randomId = (): string => randomBytes(6).toString('hex');

/**
 * Call once at the top of a test file. The worker is at work unless told otherwise with `worker('none')`. With `locks` statements wait for
 * the locks that a test holds, however long it needs. Searches have more than their two seconds unless told.
 */
export function useExecution(overrides: Partial<ExecutionSettings> = {}, { locks = false, searches = true } = {}): ExecutionServer {
  const server = new ExecutionServer(useLedger(), overrides);
  beforeAll(() => {
    makePatient(server.ledger.db, { locks, searches });
    return server.open();
  });
  afterAll(() => server.close());
  return server;
}
