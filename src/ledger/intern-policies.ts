import { canonicalJson, fingerprint } from '../core/canonical-json.ts';
import type { Policy } from '../core/policy.ts';
import { type Queryable, run, statement } from './statement.ts';

const INTERN = statement(
  'intern_policy',
  `WITH made AS (
     INSERT INTO millrace.policies (hash, body) VALUES ($1, $2::jsonb) ON CONFLICT (hash) DO NOTHING RETURNING id
   )
   SELECT id FROM made UNION ALL SELECT id FROM millrace.policies WHERE hash = $1 LIMIT 1`,
);

const READ = statement('read_policy', 'SELECT body FROM millrace.policies WHERE id = $1');

/** Policies by number and numbers by policy. Few distinct ones exist, so both directions are kept in memory. */
export class PolicyCache {
  readonly #db: Queryable;
  readonly #ids = new WeakMap<Policy, number>();
  readonly #idsByHash = new Map<string, Promise<number>>();
  readonly #policies = new Map<number, Policy>();

  constructor(db: Queryable) {
    this.#db = db;
  }

  /** The number of a policy that was met before, without a round trip. */
  known(policy: Policy): number | undefined {
    return this.#ids.get(policy);
  }

  /** Callers that meet a new policy at the same time share one round trip. */
  async idOf(policy: Policy): Promise<number> {
    const known = this.#ids.get(policy);
    if (known !== undefined) return known;
    const hash = fingerprint(policy);
    const interning = this.#idsByHash.get(hash) ?? this.#intern(hash, policy);
    this.#idsByHash.set(hash, interning);
    try {
      const id = await interning;
      this.#ids.set(policy, id);
      // A worker in this process need not ask for what it wrote itself.
      if (!this.#policies.has(id)) this.#policies.set(id, policy);
      return id;
    } catch (error) {
      this.#idsByHash.delete(hash);
      throw error;
    }
  }

  async #intern(hash: string, policy: Policy): Promise<number> {
    // Another process may commit the same policy between our insert and our read: then the second try finds it.
    for (;;) {
      const rows = await run<{ id: number }>(this.#db, INTERN, [hash, canonicalJson(policy)]);
      if (rows[0] !== undefined) return rows[0].id;
    }
  }

  cached(id: number): Policy | undefined {
    return this.#policies.get(id);
  }

  async policyOf(id: number): Promise<Policy> {
    const known = this.#policies.get(id);
    if (known !== undefined) return known;
    const rows = await run<{ body: Policy }>(this.#db, READ, [id]);
    const policy = rows[0]?.body;
    if (policy === undefined) throw new Error(`Policy ${id} is not in the ledger.`);
    this.#policies.set(id, policy);
    return policy;
  }
}
