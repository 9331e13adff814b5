import { AppError } from '../../core/errors.ts';
import { DEFAULT_ORG_SHARE, shareOf } from '../../core/fair-share.ts';
import type { Owner } from '../../core/owner.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { sealOf } from '../../ledger/driver/seal.ts';
import {
  type FeedEvent,
  type FeedPage,
  type FeedPosition,
  feedHorizon,
  readFeed,
  readJobFeed,
  startOf,
} from '../../ledger/history/read-feed.ts';
import type { EventHub } from '../events.ts';
import { Loop } from '../loop.ts';
import { FeedCursors, invalidFeedCursor } from './feed-cursor.ts';
import { type FeedFilter, FeedSubscription, type Follower, JobWatch } from './feed-subscription.ts';

export type FeedSettings = {
  pollMs?: number;
  /** How many events, of all orgs, one read returns at most. */
  pageSize?: number;
  /** How many unread events are kept for a follower. With one more, the follower is dropped. */
  maxBuffered?: number;
  maxFollowers?: number;
  maxFollowersPerOrg?: number;
  /** The part of `maxFollowers` that orgs may fill without regard to each other. */
  orgShare?: number;
};

const POLL_MS = 100;
const IDLE_MS = 60_000;
const PAGE_SIZE = 1_000;
const MAX_BUFFERED = 5_000;
const MAX_FOLLOWERS = 1_000;
const MAX_FOLLOWERS_PER_ORG = 100;
const CATCH_UPS_AT_ONCE = 4;
const RETRY_AFTER_MS = 5_000;

type CatchUp = { orgId: string; after: FeedPosition };

const tooManyFollowers = (): AppError =>
  new AppError('UNAVAILABLE', {
    message: 'This server has as many event streams open as it allows. Try again later.',
    retryAfterMs: RETRY_AFTER_MS,
  });

/**
 * The live events of all jobs. One poller in a process reads for all followed orgs, and reads nothing while there are
 * no followers. A follower that resumes first reads the events that it missed. Only a few followers do so at a time.
 */
export class EventFeed {
  readonly #database: Database;
  readonly #settings: Required<FeedSettings>;
  readonly #poller: Loop;
  readonly #followers = new Map<string, Set<Follower>>();
  readonly #catchUps: Batcher<CatchUp, FeedPage>;
  #count = 0;
  /** The followers have received everything up to here. */
  #position: FeedPosition | null = null;
  #isStopped = false;

  constructor(params: { database: Database; events: EventHub; settings?: FeedSettings }) {
    this.#database = params.database;
    this.#settings = {
      pollMs: POLL_MS,
      pageSize: PAGE_SIZE,
      maxBuffered: MAX_BUFFERED,
      maxFollowers: MAX_FOLLOWERS,
      maxFollowersPerOrg: MAX_FOLLOWERS_PER_ORG,
      ...params.settings,
      orgShare: params.settings?.orgShare ?? DEFAULT_ORG_SHARE,
    };
    this.#catchUps = createBatcher<CatchUp, FeedPage>({
      send: async (wanted) => Promise.all(wanted.map(({ orgId, after }) => this.#read([orgId], after))),
      maxItems: 1,
      maxInFlight: CATCH_UPS_AT_ONCE,
      maxWaiting: this.#settings.maxFollowers,
      overflow: tooManyFollowers,
    });
    this.#poller = new Loop({ name: 'event feed', round: () => this.#poll(), events: params.events });
  }

  async cursors(orgId: string): Promise<FeedCursors> {
    return new FeedCursors(await sealOf(this.#database.api), orgId);
  }

  /** Follows the events of an org or of one project, from a position or from now on. Close the subscription when done. */
  async follow(
    owner: Owner,
    { after, filter = {}, onOverflow = () => {} }: { after?: FeedPosition; filter?: FeedFilter; onOverflow?(): void },
  ): Promise<FeedSubscription> {
    const { orgId } = owner;
    return this.#enter(orgId, (horizon, onClose) => {
      // No transaction has reached this position yet, so it comes from another database.
      if (after !== undefined && after.txid > horizon.xmax) throw invalidFeedCursor();
      return new FeedSubscription({
        owner,
        filter,
        onOverflow,
        onClose,
        maxBuffered: this.#settings.maxBuffered,
        after: after ?? startOf(horizon.xmin),
        livePosition: () => this.#position,
        read: (from) => this.#catchUps.add({ orgId, after: from }),
      });
    });
  }

  /** Watches one job; `readJob` returns its events. */
  async watch(orgId: string, jobId: string): Promise<JobWatch> {
    return this.#enter(orgId, (_, onClose) => new JobWatch({ orgId, jobId, onClose }));
  }

  readJob(owner: Owner, { jobId, afterN }: { jobId: string; afterN: number }): Promise<FeedEvent[]> {
    return readJobFeed(this.#database.reads.of(owner.orgId), owner, { jobId, afterN, limit: this.#settings.pageSize });
  }

  /** Ends every subscription. New ones are refused. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const followers of [...this.#followers.values()]) for (const follower of [...followers]) follower.close();
    await this.#poller.stop();
  }

  // The place is taken before the first await, so that many callers at the same time cannot exceed the limits.
  async #enter<F extends Follower>(
    orgId: string,
    make: (horizon: Awaited<ReturnType<typeof feedHorizon>>, onClose: () => void) => F,
  ): Promise<F> {
    const followers = this.#admit(orgId);
    const place: Follower = { orgId, onPage() {}, close() {} };
    followers.add(place);
    this.#count++;
    const leave = (follower: Follower) => {
      if (!followers.delete(follower)) return;
      this.#count--;
      if (followers.size === 0 && this.#followers.get(orgId) === followers) this.#followers.delete(orgId);
    };
    try {
      const horizon = await feedHorizon(this.#database.api);
      if (this.#isStopped) throw new AppError('SHUTTING_DOWN');
      const follower: F = make(horizon, () => leave(follower));
      followers.delete(place);
      followers.add(follower);
      this.#position ??= startOf(horizon.xmin);
      this.#poller.start();
      this.#poller.wake();
      return follower;
    } catch (error) {
      leave(place);
      throw error;
    }
  }

  #admit(orgId: string): Set<Follower> {
    if (this.#isStopped) throw new AppError('SHUTTING_DOWN');
    const followers = this.#followers.get(orgId) ?? new Set();
    const maximum = this.#shareOf(followers.size);
    if (followers.size >= maximum && this.#count < this.#settings.maxFollowers) {
      const message = `The organisation has ${followers.size} event streams open on this server, the most it may have now (limits.org_share). Close one first.`;
      const quota = { limit: 'event_streams', current: followers.size, maximum };
      throw new AppError('QUOTA_EXCEEDED', { message, quota: { ...quota, retryAfterMs: RETRY_AFTER_MS } });
    }
    if (this.#count >= this.#settings.maxFollowers) {
      throw tooManyFollowers();
    }
    this.#followers.set(orgId, followers);
    return followers;
  }

  /** An org may have its maximum, but never so many streams that none is left for another org. */
  #shareOf(own: number): number {
    const { maxFollowers, maxFollowersPerOrg, orgShare } = this.#settings;
    return Math.min(maxFollowersPerOrg, shareOf({ limit: maxFollowers, part: orgShare }, { own, all: this.#count }));
  }

  async #poll(): Promise<number> {
    if (this.#count === 0) this.#position = null;
    if (this.#position === null) return IDLE_MS;
    const { events, end, hasMore } = await this.#read([...this.#followers.keys()], this.#position);
    this.#position = end;
    const byOrg = Map.groupBy(events, (event) => event.orgId);
    for (const [orgId, followers] of this.#followers) {
      const own = byOrg.get(orgId) ?? [];
      for (const follower of followers) follower.onPage(own, end);
    }
    return hasMore ? 0 : this.#settings.pollMs;
  }

  #read(orgIds: readonly string[], after: FeedPosition): Promise<FeedPage> {
    return readFeed(this.#database.api, orgIds, { after, limit: this.#settings.pageSize });
  }
}
