import type pg from 'pg';
import { ScramClient } from '../../postgres/scram-client.ts';
import { canPrepareOnce, PreparedQuery } from './prepared-query.ts';
import { type SessionSettings, verifySession } from './session-bounds.ts';
import type { Queryable } from './statement.ts';

/**
 * One connection that a busy caller keeps. It sends statements without waiting for the results of earlier ones, so the database executes
 * the next statement while this process reads the last result. Each statement is a separate transaction, and a failure affects no
 * other. A broken connection is replaced at the next statement.
 */
export class Pipeline implements Queryable {
  readonly isOurs = true;
  readonly #config: pg.ClientConfig;
  readonly #settings: SessionSettings;
  #client: Promise<pg.Client> | null = null;
  #underWay = 0;

  constructor(config: pg.ClientConfig, settings: SessionSettings) {
    this.#settings = settings;
    this.#config = { ...config, pipeline: true } as pg.ClientConfig;
  }

  /** Statements in flight. */
  get underWay(): number {
    return this.#underWay;
  }

  async query(config: pg.QueryConfig): Promise<pg.QueryResult> {
    this.#underWay++;
    try {
      return await this.#send(config);
    } finally {
      this.#underWay--;
    }
  }

  async #send({ name, text, values = [] }: pg.QueryConfig): Promise<pg.QueryResult> {
    const client = await (this.#client ?? this.#connect());
    if (name === undefined || !canPrepareOnce) return client.query({ name, text, values });
    return new Promise((resolve, reject) => {
      const callback = (error: Error | null, result: pg.QueryResult) => (error ? reject(error) : resolve(result));
      client.query(new PreparedQuery({ name, text, values, callback }) as unknown as pg.Query);
    });
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => null);
    this.#client = null;
    await client?.end().catch(() => {});
  }

  async #open(client: pg.Client): Promise<pg.Client> {
    await client.connect();
    try {
      await verifySession(client, this.#settings);
      return client;
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
  }

  #connect(): Promise<pg.Client> {
    const client = new ScramClient(this.#config);
    const connecting = this.#open(client);
    const forget = () => {
      if (this.#client === connecting) this.#client = null;
    };
    client.on('error', forget);
    client.on('end', forget);
    connecting.catch(forget);
    this.#client = connecting;
    return connecting;
  }
}
