import { canonicalJson, fingerprint } from '../core/canonical-json.ts';
import { AppError } from '../core/errors.ts';
import type { Policy } from '../core/policy.ts';
import { type Batcher, createBatcher } from './batcher.ts';
import { type Queryable, run, statement } from './statement.ts';

// Sorted, so that two batches never wait for each other in a ring.
const INTERN = statement(
  'intern_policies',
  `WITH made AS (
     INSERT INTO millrace.policies (hash, body)
     SELECT w.hash, w.body::jsonb FROM unnest($1::text[], $2::text[]) AS w(hash, body) ORDER BY w.hash
     ON CONFLICT (hash) DO NOTHING RETURNING id, hash
   )
   SELECT id, hash FROM made UNION ALL SELECT id, hash FROM millrace.policies WHERE hash = ANY ($1::text[])`,
);

const READ = statement('read_policy', 'SELECT body FROM millrace.policies WHERE id = $1');

type New = { hash: string; policy: Policy };

const MAX_BATCH = 1_000;
const MAX_WAITING = 20_000;

const tooMany = (): AppError =>
  new AppError('UNAVAILABLE', { message: 'Too many new policies wait to be written.', retryAfterMs: 1_000 });

async function intern(db: Queryable, wanted: readonly New[]): Promise<number[]> {
  const hashes = wanted.map(({ hash }) => hash);
  const bodies = wanted.map(({ policy }) => canonicalJson(policy));
  // Another process may commit the same policy between our insert and our read: then the second try finds it.
  for (;;) {
    const rows = await run<{ id: number; hash: string }>(db, INTERN, [hashes, bodies]);
    const ids = new Map(rows.map(({ hash, id }) => [hash, id]));
    const found = hashes.flatMap((hash) => ids.get(hash) ?? []);
    if (found.length === hashes.length) return found;
  }
}

/** Policies by number and numbers by policy. Few distinct ones exist, so both directions are kept in memory. */
export class PolicyCache {
  readonly #db: Queryable;
  readonly #ids = new WeakMap<Policy, number>();
  readonly #idsByHash = new Map<string, Promise<number>>();
  readonly #policies = new Map<number, Policy>();
  readonly #interning: Batcher<New, number>;

  constructor(db: Queryable) {
    this.#db = db;
    this.#interning = createBatcher<New, number>({
      send: (policies) => intern(db, policies),
      ...{ maxItems: MAX_BATCH, maxInFlight: 1, maxWaiting: MAX_WAITING, overflow: tooMany },
    });
  }

  /** The number of a policy that was met before, without a round trip. */
  known(policy: Policy): number | undefined {
    return this.#ids.get(policy);
  }

  /** Callers that meet new policies at the same time share one round trip. */
  async idOf(policy: Policy): Promise<number> {
    const known = this.#ids.get(policy);
    if (known !== undefined) return known;
    const hash = fingerprint(policy);
    const interning = this.#idsByHash.get(hash) ?? this.#interning.add({ hash, policy });
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
