import type { Engine } from '../../engine/engine.ts';
import { unavailable, within } from '../../services/admission/bounded-wait.ts';
import { createPermitLeases, type PermitLeases, type RateLease } from '../../services/admission/lease-permits.ts';
import type { LimitVerdict, RateLimiter } from './identity.ts';

export type OrgRateLimiterOptions = {
  database: Engine['database'];
  /** The limit of orgs that have none configured. */
  requestsPerMinute?: number;
};

const DEFAULT_REQUESTS_PER_MINUTE = 600;
/** The length of the window in which requests are counted. */
export const RATE_WINDOW_SECONDS = 60;

const MAX_ORGS = 10_000;
const MAX_WAIT_MS = 1_500;
const AFTER_FAILURE_MS = 250;
const QUICKLY_USED_MS = 1_000;
const SLOWLY_USED_MS = 5_000;

/** The permits that this process has for one org in the current window. */
type Share = {
  permits: number;
  limit: number;
  /** Permits leased by all processes, as of the last query. */
  leased: number;
  endsAtMs: number;
  /** How many permits to lease next. */
  block: number;
  leasedAtMs: number;
  waiting: number;
  leasing: Promise<void> | null;
};

/**
 * Limits the requests of an org exactly over all processes, without a query for each request. A process leases a block of
 * permits from the org's limit for the minute and leases the next block before this one is used up. Blocks grow with use but
 * stay small in relation to the limit, because other processes cannot use the permits that a block has left.
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

  /** Returns null when the permits must be leased from the ledger first. */
  #decide(orgId: string, share: Share): LimitVerdict | null {
    const nowMs = performance.now();
    if (nowMs >= share.endsAtMs) return null;
    if (share.permits === 0) return isUsedUp(share) ? verdictOf(share, { allowed: false, nowMs }) : null;
    share.permits--;
    if (share.permits <= share.block / 2 && !isUsedUp(share) && !this.#isFailing()) this.#lease(orgId, share).catch(() => {});
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
        // The window of the new permits may already be over. Then the loop leases again, in the next window.
        const verdict = this.#decide(orgId, share);
        if (verdict !== null) return verdict;
      }
    } finally {
      share.waiting--;
    }
  }

  /** Concurrent callers share one statement for each org. */
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

  /** Discards another share when there are too many. Its unused permits are lost until the minute ends. */
  #newShare(orgId: string): Share {
    if (this.#shares.size >= MAX_ORGS) {
      for (const [id, { leasing, waiting }] of this.#shares) {
        if (leasing !== null || waiting > 0) continue;
        this.#shares.delete(id);
        break;
      }
    }
    const share: Share = {
      permits: 0,
      limit: this.#defaultLimit,
      leased: 0,
      endsAtMs: Number.NEGATIVE_INFINITY,
      block: 0,
      leasedAtMs: Number.NEGATIVE_INFINITY,
      waiting: 0,
      leasing: null,
    };
    this.#shares.set(orgId, share);
    return share;
  }

  #isFailing(): boolean {
    return performance.now() - this.#failedAtMs < AFTER_FAILURE_MS;
  }
}

/** No process can lease more permits in this window. */
const isUsedUp = ({ leased, limit }: Share): boolean => leased >= limit;

/** Counts the window from before the query was sent, so that no permit outlives its window on the ledger's clock. */
function receive(share: Share, lease: Omit<RateLease, 'orgId'>, askedAtMs: number): void {
  const endsAtMs = askedAtMs + lease.endsInMs;
  // Two leases of one window differ only by the time that their queries took.
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
