import { canonicalJson, fingerprint } from '../../core/canonical-json.ts';
import { AppError } from '../../core/errors.ts';
import type { Policy } from '../../core/policy.ts';
import { type Batcher, createBatcher } from '../driver/batcher.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Sorted, so that two batches cannot deadlock. It uses the real clock, because caches expire by it. A policy that is being removed at
// this moment is written again under a new number.
const INTERN = statement(
  'intern_policies',
  `INSERT INTO millrace.policies (hash, body)
   SELECT DISTINCT ON (w.hash) w.hash, w.body::jsonb FROM unnest($1::text[], $2::text[]) AS w(hash, body) ORDER BY w.hash
   ON CONFLICT (hash) DO UPDATE SET last_used_at = now() RETURNING id, hash`,
);

const READ = statement('read_policy', 'SELECT body FROM millrace.policies WHERE id = $1');

type New = { hash: string; policy: Policy };

const MAX_BATCH = 1_000;
const MAX_WAITING = 20_000;

const tooMany = (): AppError => new AppError('UNAVAILABLE', { message: 'Too many new policies wait to be written.', retryAfterMs: 1_000 });

async function intern(db: Queryable, wanted: readonly New[]): Promise<number[]> {
  const hashes = wanted.map(({ hash }) => hash);
  const bodies = wanted.map(({ policy }) => canonicalJson(policy));
  const rows = await run<{ id: number; hash: string }>(db, INTERN, [hashes, bodies]);
  const ids = new Map(rows.map(({ hash, id }) => [hash, id]));
  return hashes.map((hash) => ids.get(hash) as number);
}

/** Writes policies that are new, for submissions that have no cache. */
export async function storePolicies(db: Queryable, policies: readonly Policy[]): Promise<void> {
  if (policies.length > 0)
    await intern(
      db,
      policies.map((policy) => ({ hash: fingerprint(policy), policy })),
    );
}

/** How long new jobs may get a number after the ledger recorded a use of the policy. */
const LIFE_MS = 3_600_000;
/** The size of each cache. More distinct policies cost round trips, not memory. */
const MAX_REMEMBERED = 10_000;

/** A number that new jobs may get until a deadline. It uses both clocks, because the monotonic clock stops while a machine sleeps. */
type Handed = { readonly id: number; readonly untilMs: number; readonly untilWallMs: number };

export type PolicyCacheOptions = { lifeMs?: number; maxRemembered?: number };

/**
 * Caches policies by number and numbers by policy. A number expires, because the ledger removes policies that were not used for a long
 * time (decision 0026). The policy of a number never changes, so a policy that was read by number does not expire.
 */
export class PolicyCache {
  readonly #db: Queryable;
  readonly #lifeMs: number;
  readonly #maxRemembered: number;
  readonly #ids = new WeakMap<Policy, Handed>();
  readonly #idsByHash = new Map<string, Promise<Handed>>();
  readonly #policies = new Map<number, Policy>();
  readonly #interning: Batcher<New, number>;

  constructor(db: Queryable, { lifeMs = LIFE_MS, maxRemembered = MAX_REMEMBERED }: PolicyCacheOptions = {}) {
    this.#db = db;
    this.#lifeMs = lifeMs;
    this.#maxRemembered = maxRemembered;
    this.#interning = createBatcher<New, number>({
      send: (policies) => intern(db, policies),
      maxItems: MAX_BATCH,
      maxInFlight: 1,
      maxWaiting: MAX_WAITING,
      overflow: tooMany,
    });
  }

  /** Returns the number of a cached policy, without a round trip. */
  known(policy: Policy): number | undefined {
    const handed = this.#ids.get(policy);
    return handed !== undefined && isFresh(handed) ? handed.id : undefined;
  }

  /** Concurrent callers with new policies share one round trip. */
  async idOf(policy: Policy): Promise<number> {
    const known = this.known(policy);
    if (known !== undefined) return known;
    const hash = fingerprint(policy);
    const handed = await this.#handedFor(hash, policy);
    this.#ids.set(policy, handed);
    // A worker in this process need not read a policy that the process wrote.
    if (!this.#policies.has(handed.id)) this.#remember(this.#policies, handed.id, policy);
    return handed.id;
  }

  async #handedFor(hash: string, policy: Policy): Promise<Handed> {
    for (let pending = this.#idsByHash.get(hash); pending !== undefined; pending = this.#idsByHash.get(hash)) {
      const found = await pending;
      if (isFresh(found)) return found;
      // The first caller that notices asks again, and the others wait for its result.
      if (this.#idsByHash.get(hash) === pending) this.#idsByHash.delete(hash);
    }
    // The time counts from before the statement is sent, so that the ledger keeps the policy at least as long as this cache.
    const fresh = { untilMs: performance.now() + this.#lifeMs, untilWallMs: Date.now() + this.#lifeMs };
    const interning = this.#interning.add({ hash, policy }).then((id) => ({ id, ...fresh }));
    this.#remember(this.#idsByHash, hash, interning);
    interning.catch(() => this.#idsByHash.delete(hash));
    return interning;
  }

  #remember<K, V>(map: Map<K, V>, key: K, value: V): void {
    map.delete(key);
    map.set(key, value);
    const [oldest] = map.size > this.#maxRemembered ? map.keys() : [];
    if (oldest !== undefined) map.delete(oldest);
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
    this.#remember(this.#policies, id, policy);
    return policy;
  }
}

const isFresh = ({ untilMs, untilWallMs }: Handed): boolean => performance.now() < untilMs && Date.now() < untilWallMs;
