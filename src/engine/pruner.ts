import type { Database } from '../ledger/database.ts';
import { expireJobs } from '../ledger/expire-jobs.ts';
import { buryWorkers } from '../ledger/find-orphans.ts';
import { pruneJobs } from '../ledger/prune.ts';
import { pruneAccess } from '../ledger/prune-keys.ts';
import { dropOldPartitions, ensurePartitions } from '../ledger/record-partitions.ts';
import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';

const EXPIRE_LIMIT = 1_000;
const PRUNE_LIMIT = 1_000;
const EXPIRE_EVERY_MS = 60_000;
const PRUNE_EVERY_MS = 300_000;
const DAYS_AHEAD = 7;
const REVOKED_KEYS_MS = 90 * 86_400_000;

export type PrunerParams = {
  database: Database;
  events: EventHub;
  expireEveryMs?: number;
  /** How long a revoked key is remembered. */
  revokedKeysMs?: number;
  onReleased(): void;
};

/** Nothing is owed to anybody at once, and processes that start together should not all begin with it. */
const FIRST_WITHIN_MS = 20_000;

/** Ends jobs that outlived their lifetime, removes what retention no longer keeps, and makes room for coming days. */
export class Pruner implements Service {
  readonly #loops: Loop[];

  constructor(params: PrunerParams) {
    const { database, events, expireEveryMs = EXPIRE_EVERY_MS, revokedKeysMs = REVOKED_KEYS_MS } = params;
    const onError = (error: unknown, where: string) => events.emit('error', { error, where });
    const expire = async () => {
      const { again, released } = await expireJobs(database.maintenance, EXPIRE_LIMIT);
      if (released) params.onReleased();
      return again ? 0 : expireEveryMs;
    };
    const prune = async () => {
      await ensurePartitions(database.maintenance, { daysAhead: DAYS_AHEAD });
      const { jobs } = await pruneJobs(database.maintenance, PRUNE_LIMIT);
      const access = await pruneAccess(database.maintenance, { revokedKeysMs, limit: PRUNE_LIMIT });
      if (Math.max(jobs, access.revokedKeys, access.replies) === PRUNE_LIMIT) return 1_000;
      await buryWorkers(database.maintenance);
      await dropOldPartitions(database.maintenance);
      return PRUNE_EVERY_MS;
    };
    this.#loops = [
      new Loop({ name: 'expirer', round: expire, onError, firstWithinMs: Math.min(expireEveryMs, FIRST_WITHIN_MS) }),
      new Loop({ name: 'pruner', round: prune, onError, firstWithinMs: FIRST_WITHIN_MS }),
    ];
  }

  start(): void {
    for (const loop of this.#loops) loop.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
  }
}
