import type { Engine } from '../../engine/engine.ts';
import { unavailable, within } from '../../services/admission/bounded-wait.ts';
import { createPermitLeases, type PermitLeases, type RateLease } from '../../services/admission/lease-permits.ts';
import type { LimitVerdict, RateLimiter } from './identity.ts';

export type OrgRateLimiterOptions = {
  database: Engine['database'];
  /** For orgs without a limit of their own. */
  requestsPerMinute?: number;
};

const DEFAULT_REQUESTS_PER_MINUTE = 600;
/** Length of the window that limits count in. */
export const RATE_WINDOW_SECONDS = 60;

const MAX_ORGS = 10_000;
const MAX_WAIT_MS = 1_500;
const AFTER_FAILURE_MS = 250;
const QUICKLY_USED_MS = 1_000;
const SLOWLY_USED_MS = 5_000;

/** What this process may still let through for one org in the current window. */
type Share = {
  permits: number;
  limit: number;
  /** Over all processes, when last heard. */
  leased: number;
  endsAtMs: number;
  /** How many permits to ask for. */
  block: number;
  leasedAtMs: number;
  waiting: number;
  leasing: Promise<void> | null;
};

/**
 * Exact over all processes without asking the ledger for each request: a process takes blocks of permits from the org's limit
 * of the minute and counts inside its block alone. The next block is taken before the last is used up. Blocks grow with use
 * and stay small beside the limit, because what one process holds unused is lost to the others until the minute ends.
 */
export class OrgRateLimiter implements RateLimiter {
  readonly #leases: PermitLeases;
  readonly #defaultLimit: number;
  readonly #shares = new Map<string, Share>();
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor({ database, requestsPerMinute = DEFAULT_REQUESTS_PER_MINUTE }: OrgRateLimiterOptions) {
    this.#leases = createPermitLeases(database, { requestsPerMinute });
    this.#defaultLimit = requestsPerMinute;
  }

  take(orgId: string): LimitVerdict | Promise<LimitVerdict> {
    const share = this.#shares.get(orgId) ?? this.#newShare(orgId);
    return this.#decide(orgId, share) ?? this.#waitAndTake(orgId, share);
  }

  /** Null: only the ledger can say. */
  #decide(orgId: string, share: Share): LimitVerdict | null {
    const nowMs = performance.now();
    if (nowMs >= share.endsAtMs) return null;
    if (share.permits === 0) return isUsedUp(share) ? verdictOf(share, { allowed: false, nowMs }) : null;
    share.permits--;
    if (share.permits <= share.block / 2 && !isUsedUp(share) && !this.#isFailing())
      this.#lease(orgId, share).catch(() => {});
    return verdictOf(share, { allowed: true, nowMs });
  }

  async #waitAndTake(orgId: string, share: Share): Promise<LimitVerdict> {
    const deadlineMs = performance.now() + MAX_WAIT_MS;
    share.waiting++;
    try {
      for (;;) {
        const leftMs = deadlineMs - performance.now();
        if (leftMs <= 0 || (share.leasing === null && this.#isFailing())) throw unavailable();
        await within(leftMs, this.#lease(orgId, share));
        // What was granted in the last moment of a window may have ended on its way here: ask again, in the next one.
        const verdict = this.#decide(orgId, share);
        if (verdict !== null) return verdict;
      }
    } finally {
      share.waiting--;
    }
  }

  /** One statement at a time for one org; whoever comes meanwhile waits for the same. */
  #lease(orgId: string, share: Share): Promise<void> {
    share.leasing ??= this.#askLedger(orgId, share).finally(() => {
      share.leasing = null;
    });
    return share.leasing;
  }

  async #askLedger(orgId: string, share: Share): Promise<void> {
    const askedAtMs = performance.now();
    share.block = nextBlock(share, askedAtMs);
    const wanted = Math.max(share.block, share.waiting);
    const lease = await this.#leases.lease({ orgId, wanted }).catch((error) => {
      this.#failedAtMs = performance.now();
      throw error;
    });
    receive(share, lease ?? { granted: 0, leased: 0, maximum: 0, endsInMs: 1_000 }, askedAtMs);
  }

  /** Permits of a share that is dropped are lost until the minute ends; that is all. */
  #newShare(orgId: string): Share {
    if (this.#shares.size >= MAX_ORGS) {
      for (const [id, { leasing, waiting }] of this.#shares) {
        if (leasing !== null || waiting > 0) continue;
        this.#shares.delete(id);
        break;
      }
    }
    const share: Share = {
      ...{ permits: 0, limit: this.#defaultLimit, leased: 0, endsAtMs: Number.NEGATIVE_INFINITY, block: 0 },
      ...{ leasedAtMs: Number.NEGATIVE_INFINITY, waiting: 0, leasing: null },
    };
    this.#shares.set(orgId, share);
    return share;
  }

  #isFailing(): boolean {
    return performance.now() - this.#failedAtMs < AFTER_FAILURE_MS;
  }
}

/** Nothing is left to lease for anybody until the window ends. */
const isUsedUp = ({ leased, limit }: Share): boolean => leased >= limit;

/**
 * Counted from before the question was sent, so that no permit outlives its window on the ledger's clock.
 */
function receive(share: Share, lease: Omit<RateLease, 'orgId'>, askedAtMs: number): void {
  const endsAtMs = askedAtMs + lease.endsInMs;
  // Two answers about one window differ by their way here alone.
  const isSameWindow = Math.abs(endsAtMs - share.endsAtMs) < (RATE_WINDOW_SECONDS * 1_000) / 2;
  share.permits = (isSameWindow ? share.permits : 0) + lease.granted;
  share.endsAtMs = isSameWindow ? Math.min(endsAtMs, share.endsAtMs) : endsAtMs;
  share.limit = lease.maximum;
  share.leased = lease.leased;
  share.leasedAtMs = askedAtMs;
}

function nextBlock({ limit, block, leasedAtMs }: Share, nowMs: number): number {
  const smallest = Math.max(1, Math.floor(limit / 100));
  const largest = Math.max(1, Math.floor(limit / 10));
  const sinceMs = nowMs - leasedAtMs;
  const wished = sinceMs < QUICKLY_USED_MS ? block * 2 : sinceMs > SLOWLY_USED_MS ? block / 2 : block;
  return Math.min(largest, Math.max(smallest, Math.floor(wished)));
}

function verdictOf(share: Share, { allowed, nowMs }: { allowed: boolean; nowMs: number }): LimitVerdict {
  const { limit, leased, permits, endsAtMs } = share;
  return { allowed, limit, remaining: Math.max(0, limit - leased + permits), resetMs: Math.max(0, endsAtMs - nowMs) };
}
