/** Producers of a test: roles that log in, each for its own org, gone after the test file. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll } from 'vitest';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';
import { createOrg } from '../../src/services/access/create-org.ts';
import { type CreatedProducer, createProducer, removeProducer } from '../../src/services/access/producers.ts';

export type Published = {
  job_type?: string | null;
  job_id?: string | null;
  resource_id?: string | null;
  url?: string | null;
  headers?: unknown;
  tags?: unknown;
  proxy?: string | null;
  storage?: unknown;
  manifest_key?: string | null;
};

export const newName = (): string => `producer_${randomBytes(6).toString('hex')}`;

export class Producers {
  readonly #url: () => string;
  readonly #roles: string[] = [];
  readonly #clients: pg.Client[] = [];

  constructor(url: () => string) {
    this.#url = url;
  }

  /** A producer for a new org. */
  create(org = `org-${randomBytes(6).toString('hex')}`): Promise<CreatedProducer> {
    return this.#asOwner(async (database) => {
      await createOrg(database, { slug: org }).catch(() => {});
      const role = newName();
      this.#roles.push(role);
      return createProducer(database, { role, org });
    });
  }

  async connect({ url }: { url: string }): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    this.#clients.push(client);
    return client;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.end().catch(() => {});
    await this.#asOwner(async (database) => {
      for (const role of this.#roles) await removeProducer(database, { role }).catch(() => {});
    });
  }

  async #asOwner<T>(work: (database: Database) => Promise<T>): Promise<T> {
    const database = openDatabase({ url: this.#url() });
    return work(database).finally(() => database.close());
  }
}

/** Call it at the top of a test file, after the fixture that has the database. */
export function useProducers(url: () => string): Producers {
  const producers = new Producers(url);
  afterAll(() => producers.close());
  return producers;
}

/** Inserts tasks as a producer may: by SQL, in one statement each. */
export async function publish(client: pg.Client, ...tasks: readonly Published[]): Promise<void> {
  for (const task of tasks) {
    const names = Object.keys(task);
    const places = names.map((_, index) => `$${index + 1}`);
    const values = Object.values(task).map((value) => (typeof value === 'object' && value !== null ? JSON.stringify(value) : value));
    await client.query(`INSERT INTO millrace.task_intake (${names.join(', ')}) VALUES (${places.join(', ')})`, values);
  }
}
