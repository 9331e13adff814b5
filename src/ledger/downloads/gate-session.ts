import type pg from 'pg';
import { ScramClient } from '../../postgres/scram-client.ts';
import { NO_BITMAPS, types } from '../driver/database.ts';
import { toOptions, verifySession } from '../driver/session-bounds.ts';
import { type Queryable, sqlStateOf } from '../driver/statement.ts';
import { openGate } from './gates.ts';

/** How long the server keeps a session whose client it cannot reach. The process gives up its places much earlier: see `STATEMENT_MS`. */
const UNREACHABLE_MS = 60_000;
const BOUNDS = `-c tcp_user_timeout=${UNREACHABLE_MS} -c tcp_keepalives_idle=${UNREACHABLE_MS / 1_000} -c tcp_keepalives_interval=10`;
/** A session that takes longer for a statement is given up, and with it every place of the process. */
const STATEMENT_MS = 4_000;
// A server that crashes forgets all sessions, and with them all places. So a place need not be flushed to disk.
const SETTINGS = { ...NO_BITMAPS, synchronous_commit: 'off' };

/** The session that represents a process at the hosts. Its places are free for others when it ends, so it is never replaced. */
export class GateSession implements Queryable {
  readonly isOurs = true;
  readonly gateId: number;
  readonly #client: pg.Client;
  #isLost = false;
  #last: Promise<unknown> = Promise.resolve();
  #onLost: () => void = () => {};

  private constructor(client: pg.Client, gateId: number) {
    this.#client = client;
    this.gateId = gateId;
  }

  static async open(url: string): Promise<GateSession> {
    const client = new ScramClient({
      connectionString: url,
      application_name: 'millrace downloads',
      types,
      connectionTimeoutMillis: 2_000,
      keepAlive: true,
      statement_timeout: STATEMENT_MS - 1_000,
      query_timeout: STATEMENT_MS,
      lock_timeout: 2_000,
      options: `${toOptions(SETTINGS)} ${BOUNDS}`,
    });
    let session: GateSession | null = null;
    const end = () => session?.lose();
    client.on('error', end);
    client.on('end', end);
    try {
      await client.connect();
      await verifySession(client, SETTINGS);
      session = new GateSession(client, await openGate(client));
      return session;
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Calls the listener when the session has ended or no longer responds. Its process must then send no request with its places. */
  onLost(listener: () => void): void {
    this.#onLost = listener;
    if (this.#isLost) listener();
  }

  /** Statements of several hosts take turns, because the time of a statement begins when the client gets it. */
  query(config: pg.QueryConfig): Promise<pg.QueryResult> {
    const result = this.#last.then(() => this.#run(config));
    this.#last = result.catch(() => {});
    return result;
  }

  async #run(config: pg.QueryConfig): Promise<pg.QueryResult> {
    if (this.#isLost) throw new Error('the session for downloads has ended');
    try {
      return await this.#client.query(config);
    } catch (error) {
      if (sqlStateOf(error) === null) this.lose();
      throw error;
    }
  }

  lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // The listener runs first: the server frees the places when the connection is closed.
    this.#onLost();
    this.#client.end().catch(() => {});
  }

  async close(): Promise<void> {
    this.#isLost = true;
    await this.#client.end().catch(() => {});
  }
}
