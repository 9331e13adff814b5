import type pg from 'pg';
import { type Queryable, statement } from './statement.ts';

const SET_ORG = statement('set_org', "SELECT set_config('millrace.org_id', $1, false)");

const BECOME_READER = statement('become_reader', "SELECT set_config('role', 'millrace_reader', false) WHERE millrace.reader_is_ready()");

/**
 * Turns a new session into one of the role `millrace_reader`, which sees rows of one org only. Without the role, the session reads as the
 * owner of the tables, and the conditions of the statements alone keep orgs apart.
 */
export async function becomeReader(client: pg.ClientBase): Promise<void> {
  await client.query({ text: BECOME_READER.text });
}

/** The org that each session is set to. */
const orgs = new WeakMap<pg.ClientBase, string>();

/**
 * Sessions for reads of one org at a time. Row-level security hides rows of all other orgs from them, even if a statement lacks its own
 * condition (decision 0064). A session keeps the setting of its last org. So a read costs a round trip more only if the org changes.
 */
export class OrgReads {
  readonly #pool: pg.Pool;
  readonly #outside: Queryable;

  /** `outside` is for statements that concern all orgs. */
  constructor(pool: pg.Pool, outside: Queryable) {
    this.#pool = pool;
    this.#outside = outside;
  }

  /** Runs statements that see rows of this org only. */
  of(orgId: string): Queryable {
    return { isOurs: true, outside: this.#outside, query: (config) => this.#query(orgId, config) };
  }

  async #query(orgId: string, config: { name?: string; text: string; values?: unknown[] }): Promise<pg.QueryResult> {
    const client = await this.#pool.connect();
    try {
      if (orgs.get(client) !== orgId) {
        orgs.delete(client);
        await client.query({ name: SET_ORG.name, text: SET_ORG.text, values: [orgId] });
        orgs.set(client, orgId);
      }
      const result = await client.query(config);
      client.release();
      return result;
    } catch (error) {
      client.release(error as Error);
      throw error;
    }
  }
}

/**
 * The sessions for a statement that concerns all orgs, within a read of one org. Such a statement must return nothing that belongs to
 * another org. The test of the second lock lists all of them.
 */
export const outsideOrg = (db: Queryable): Queryable => db.outside ?? db;

/** Reads of one org, or of every org for an operator. */
export const readsOf = (reads: OrgReads, orgId: string | null, every: Queryable): Queryable => (orgId === null ? every : reads.of(orgId));
