import { AppError } from '../../core/errors.ts';
import { type JobLimit, sameNumbers } from '../../core/limit.ts';
import { type Batcher, createBatcher } from '../driver/batcher.ts';
import { int4Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Sorted, so that two batches cannot deadlock. Of several submissions with one key, the last one decides.
const INTERN = statement(
  'intern_limits',
  `INSERT INTO millrace.limits (org_id, key, concurrency, rate, per_ms)
   SELECT DISTINCT ON (w.org_id, w.key) w.org_id, w.key, w.concurrency, w.rate, w.per_ms
   FROM unnest($1::uuid[], $2::text[], $3::int4[], $4::int4[], $5::int4[]) WITH ORDINALITY AS w(org_id, key, concurrency, rate, per_ms, ord)
   ORDER BY w.org_id, w.key, w.ord DESC
   ON CONFLICT (org_id, key) DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate, per_ms = excluded.per_ms,
     last_used_at = now() RETURNING id, org_id, key`,
);

type Wanted = { orgId: string; limit: JobLimit };

const MAX_BATCH = 1_000;
const MAX_WAITING = 20_000;
/** How long new jobs may get a number after the ledger recorded a use of the limit. The pruner keeps limits for much longer. */
const LIFE_MS = 3_600_000;
/** More keys than this cost round trips, not memory. */
const MAX_REMEMBERED = 20_000;

const tooMany = (): AppError => new AppError('UNAVAILABLE', { message: 'Too many new limits wait to be written.', retryAfterMs: 1_000 });

const nameOf = (orgId: string, key: string): string => `${orgId} ${key}`;

async function intern(db: Queryable, wanted: readonly Wanted[]): Promise<number[]> {
  const rows = await run<{ id: number; org_id: string; key: string }>(db, INTERN, [
    uuidArray(wanted.map(({ orgId }) => orgId)),
    textArray(wanted.map(({ limit }) => limit.key)),
    int4Array(wanted.map(({ limit }) => limit.concurrency)),
    int4Array(wanted.map(({ limit }) => limit.rate)),
    int4Array(wanted.map(({ limit }) => limit.perMs)),
  ]);
  const ids = new Map(rows.map(({ org_id, key, id }) => [nameOf(org_id, key), id]));
  return wanted.map(({ orgId, limit }) => ids.get(nameOf(orgId, limit.key)) as number);
}

/** A number that new jobs may get until a deadline. It uses both clocks, because the monotonic clock stops while a machine sleeps. */
type Handed = { readonly id: number; readonly limit: JobLimit; readonly untilMs: number; readonly untilWallMs: number };

/**
 * Caches the numbers of limits by org and key. A new limit is written by a separate statement and not by that of the job, so a transaction
 * of a caller that stays open locks no limit.
 */
export class LimitCache {
  readonly #lifeMs: number;
  readonly #handed = new Map<string, Handed>();
  readonly #interning: Batcher<Wanted, number>;

  constructor(db: Queryable, { lifeMs = LIFE_MS }: { lifeMs?: number } = {}) {
    this.#lifeMs = lifeMs;
    this.#interning = createBatcher<Wanted, number>({
      send: (wanted) => intern(db, wanted),
      maxItems: MAX_BATCH,
      maxInFlight: 1,
      maxWaiting: MAX_WAITING,
      overflow: tooMany,
    });
  }

  /** Returns the number of a cached limit with the same numbers, without a round trip. */
  known(orgId: string, limit: JobLimit): number | undefined {
    const handed = this.#handed.get(nameOf(orgId, limit.key));
    if (handed === undefined || !sameNumbers(handed.limit, limit)) return undefined;
    return performance.now() < handed.untilMs && Date.now() < handed.untilWallMs ? handed.id : undefined;
  }

  /** Concurrent callers with new limits share one round trip. */
  async idOf(orgId: string, limit: JobLimit): Promise<number> {
    const known = this.known(orgId, limit);
    if (known !== undefined) return known;
    // The time counts from before the statement is sent, so that the ledger keeps the limit at least as long as this cache.
    const fresh = { untilMs: performance.now() + this.#lifeMs, untilWallMs: Date.now() + this.#lifeMs };
    const id = await this.#interning.add({ orgId, limit });
    this.#remember(nameOf(orgId, limit.key), { id, limit, ...fresh });
    return id;
  }

  #remember(name: string, handed: Handed): void {
    this.#handed.delete(name);
    this.#handed.set(name, handed);
    const [oldest] = this.#handed.size > MAX_REMEMBERED ? this.#handed.keys() : [];
    if (oldest !== undefined) this.#handed.delete(oldest);
  }
}
