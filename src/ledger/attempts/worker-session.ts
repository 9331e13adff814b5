import type pg from 'pg';
import { ScramClient } from '../../postgres/scram-client.ts';
import { NO_BITMAPS, types } from '../driver/database.ts';
import { toOptions } from '../driver/session-bounds.ts';
import { type Queryable, sqlStateOf } from '../driver/statement.ts';
import { holdWorkerLock } from './watch-workers.ts';

/**
 * How long the server keeps a session whose client it cannot reach. Such a worker may still run handlers, so its lock must not become
 * free before the worker has stopped them. `Heartbeat` stops them earlier than this.
 */
export const UNREACHABLE_MS = 900_000;

const BOUNDS = `-c tcp_user_timeout=${UNREACHABLE_MS} -c tcp_keepalives_idle=${UNREACHABLE_MS / 1_000} -c tcp_keepalives_interval=10`;
const STATEMENT_MS = 5_000;

export type WorkerSessionOptions = {
  url: string;
  workerId: number;
  /** The connection ended. The next statement opens another. */
  onLost?(): void;
};

/**
 * The connection that represents a worker. It holds the worker's lock, which becomes free when the process ends. The next statement
 * replaces a lost connection, and the new connection takes a lock before anything else.
 */
export class WorkerSession implements Queryable {
  readonly isOurs = true;
  readonly #options: WorkerSessionOptions;
  #client: Promise<pg.Client> | null = null;
  /** A connection that no longer responds. It is closed once its successor holds a lock, because the server may see it end first. */
  #unanswering: pg.Client | null = null;

  constructor(options: WorkerSessionOptions) {
    this.#options = options;
  }

  /** Connects and takes the lock, if there is no connection yet. */
  async open(): Promise<void> {
    await (this.#client ?? this.#connect());
  }

  async query(config: pg.QueryConfig): Promise<pg.QueryResult> {
    const client = await (this.#client ?? this.#connect());
    try {
      return await client.query(config);
    } catch (error) {
      if (sqlStateOf(error) === null) this.#giveUp(client);
      throw error;
    }
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => null);
    this.#client = null;
    this.#closeUnanswering();
    await client?.end().catch(() => {});
  }

  #connect(): Promise<pg.Client> {
    const client = new ScramClient({
      connectionString: this.#options.url,
      application_name: 'millrace heartbeat',
      types,
      connectionTimeoutMillis: 2_000,
      keepAlive: true,
      statement_timeout: STATEMENT_MS,
      query_timeout: STATEMENT_MS + 1_000,
      lock_timeout: 2_000,
      options: `${toOptions(NO_BITMAPS)} ${BOUNDS}`,
    });
    const connecting = this.#hold(client);
    this.#client = connecting;
    const forget = () => {
      if (this.#client !== connecting) return;
      this.#client = null;
      this.#options.onLost?.();
    };
    client.on('error', forget);
    client.on('end', forget);
    connecting.catch(() => {
      forget();
      client.end().catch(() => {});
    });
    return connecting;
  }

  async #hold(client: pg.Client): Promise<pg.Client> {
    await client.connect();
    const { processID: processId } = client as pg.Client & { processID: number };
    await holdWorkerLock(client, { workerId: this.#options.workerId, processId });
    this.#closeUnanswering();
    return client;
  }

  #giveUp(client: pg.Client): void {
    this.#closeUnanswering();
    this.#unanswering = client;
    this.#client = null;
  }

  #closeUnanswering(): void {
    this.#unanswering?.end().catch(() => {});
    this.#unanswering = null;
  }
}
