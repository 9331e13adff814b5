/** The event routes on a real socket. The key of a caller is the id of its org. */
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { AppError } from '../../src/core/errors.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Http } from '../../src/http/door.ts';
import { type EventStreamSettings, registerEventRoutes } from '../../src/http/queue/events.ts';
import { renderError } from '../../src/http/queue/render.ts';
import { ApiError, ErrorDetail, QuotaError } from '../../src/http/queue/schemas/error.ts';
import { buildServer } from '../../src/http/server.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import type { TestLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

export type EventServer = { http: Http; url: string; port: number; revoked: Set<string> };

/** `isStarted`: the engine of the server receives hints of other processes. */
export async function serveEvents(
  ledger: TestLedger,
  settings: EventStreamSettings = {},
  { isStarted = false } = {},
): Promise<EventServer> {
  const revoked = new Set<string>();
  const authenticator = {
    async authenticate(authorization: string | undefined) {
      const orgId = authorization?.replace('Bearer ', '') ?? '';
      if (orgId === '' || revoked.has(orgId)) throw new AppError('FORBIDDEN', { message: 'The API key was revoked.' });
      return { orgId, keyId: 'k1', projectId: null, scopes: new Set(API_KEY_SCOPES), isSelfRegistered: false };
    },
  };
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
  if (isStarted) {
    // The session of an engine that was closed a moment ago may still be there.
    const before = new Set(await listeners(ledger));
    await engine.open();
    await engine.start();
    onTestFinished(() => engine.close(0));
    await until('the server listens for hints', async () => (await listeners(ledger)).some((pid) => !before.has(pid)));
  }
  const http = await buildServer({
    engine,
    doors: [
      {
        prefix: '/queue/v1',
        tag: 'queue',
        description: 'Events.',
        render: renderError,
        register(scope, engine) {
          if (!scope.hasDecorator('authenticator')) scope.decorate('authenticator', authenticator);
          for (const schema of [ErrorDetail, QuotaError, ApiError]) scope.addSchema(schema);
          registerEventRoutes(scope, engine, { pollMs: 5, ...settings });
        },
      },
    ],
    authenticator,
    limiter: { take: () => ({ allowed: true, limit: 600, remaining: 599, resetMs: 1_000 }) },
    version: '1.2.3',
  });
  await http.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => http.close());
  const { port } = http.server.address() as AddressInfo;
  return { http, url: `http://127.0.0.1:${port}/queue/v1`, port, revoked };
}

async function listeners(ledger: TestLedger): Promise<number[]> {
  const { rows } = await ledger.db.maintenance.query(
    `SELECT pid FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'millrace listener' AND query LIKE 'LISTEN%' AND state = 'idle'`,
  );
  return rows.map(({ pid }) => pid);
}

/** The reads of the feed: those of its poller are for all orgs that are followed, those of a stream that catches up for its own. */
type Reads = { shared: number; own: number; untilCaughtUp(): Promise<void> };

/** Needs streams of two orgs, which tell the reads of the poller from the others. */
export function watchReads({ db: { api } }: TestLedger): Reads {
  const query = api.query;
  let [catchingUp, quiet] = [0, 0];
  const reads: Reads = {
    ...{ shared: 0, own: 0 },
    // A stream that is behind the poller reads without a pause.
    untilCaughtUp: () => until('no stream catches up', () => quiet >= 3),
  };
  const watched = async (...given: unknown[]): Promise<unknown> => {
    const [{ name, values = [] }] = given as [{ name?: string; values?: unknown[] }];
    const asked = () => Reflect.apply(query, api, given) as Promise<unknown>;
    if (name !== 'millrace_feed_page') return asked();
    if ((values[0] as string[]).length > 1) {
      reads.shared++;
      return asked().finally(() => {
        quiet = catchingUp === 0 ? quiet + 1 : 0;
      });
    }
    reads.own++;
    catchingUp++;
    return asked().finally(() => {
      catchingUp--;
      quiet = 0;
    });
  };
  api.query = watched as typeof api.query;
  onTestFinished(() => {
    api.query = query;
  });
  return reads;
}

export type Received = { id: string; event: string; data: Record<string, unknown> };

/** One open stream, read event by event. */
class EventStream {
  /** Where the server says to resume, also by lines that carry no event. */
  lastEventId = '';
  comments: string[] = [];
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #abort: AbortController;
  #text = '';

  constructor(response: Response, abort: AbortController) {
    this.response = response;
    this.#abort = abort;
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
  }

  /** Opened once the server has said so: nothing that happens from here on is missed. */
  static async open(address: string, orgId: string, headers: Record<string, string> = {}): Promise<EventStream> {
    const abort = new AbortController();
    onTestFinished(() => abort.abort());
    const response = await fetch(address, {
      headers: { authorization: `Bearer ${orgId}`, ...headers },
      signal: abort.signal,
    });
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    const stream = new EventStream(response, abort);
    await stream.#block();
    return stream;
  }

  /** The next event; null at the end of the stream. */
  async next(): Promise<Received | null> {
    for (;;) {
      const block = await this.#block();
      if (block === null || block.event !== '') return block;
    }
  }

  async take(count: number): Promise<Received[]> {
    const taken: Received[] = [];
    while (taken.length < count) {
      const event = await this.next();
      if (event === null) throw new Error(`the stream ended after ${JSON.stringify(taken)}`);
      taken.push(event);
    }
    return taken;
  }

  async rest(): Promise<Received[]> {
    const taken: Received[] = [];
    for (let event = await this.next(); event !== null; event = await this.next()) taken.push(event);
    return taken;
  }

  /** Waits for lines that keep the connection alive; an event among them is an error. */
  async heartbeats(count: number): Promise<void> {
    const goal = this.comments.length + count;
    while (this.comments.length < goal) {
      const block = await this.#block();
      if (block === null || block.event !== '') throw new Error(`not quiet: ${JSON.stringify(block)}`);
    }
  }

  hangUp(): void {
    this.#abort.abort();
  }

  async #block(): Promise<Received | null> {
    while (!this.#text.includes('\n\n')) {
      const { value, done } = await this.#reader.read();
      if (done) return null;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
    const end = this.#text.indexOf('\n\n');
    const lines = this.#text.slice(0, end).split('\n');
    this.#text = this.#text.slice(end + 2);
    const value = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
    this.comments.push(...lines.filter((line) => line.startsWith(':')));
    this.lastEventId = value('id') || this.lastEventId;
    return { id: value('id'), event: value('event'), data: JSON.parse(value('data') || '{}') };
  }
}

export const follow = (server: EventServer, orgId: string, path = '/events', headers?: Record<string, string>) =>
  EventStream.open(`${server.url}${path}`, orgId, headers);

export const pathsOf = (events: readonly Received[]): string[] =>
  events.map(({ data }) => `${data.from_state}>${data.to_state}:${data.reason}`);

export const connectionsOf = ({ http }: EventServer): Promise<number> =>
  new Promise((resolve, reject) => {
    http.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
