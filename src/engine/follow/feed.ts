import { AppError } from '../../core/errors.ts';
import type { Database } from '../../ledger/driver/database.ts';
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
import { invalidFeedCursor } from './feed-cursor.ts';
import { type FeedFilter, FeedSubscription, type Follower, JobWatch } from './feed-subscription.ts';

export type FeedSettings = {
  pollMs?: number;
  /** Events of all orgs that one read looks at. */
  pageSize?: number;
  /** Events kept for a follower that has not taken them yet; one more and it is dropped. */
  maxBuffered?: number;
  maxFollowers?: number;
  maxFollowersPerOrg?: number;
};

const POLL_MS = 100;
const IDLE_MS = 60_000;
const PAGE_SIZE = 1_000;
const MAX_BUFFERED = 5_000;
const MAX_FOLLOWERS = 1_000;
const MAX_FOLLOWERS_PER_ORG = 100;
const CATCH_UPS_AT_ONCE = 4;
const RETRY_AFTER_MS = 5_000;

/**
 * The changes of state of all jobs, live. One poller in a process reads for every org that is followed, however many
 * followers there are, and reads nothing while there are none. A follower that resumes reads what it missed by itself, a few
 * such readers at a time.
 */
export class EventFeed {
  readonly #database: Database;
  readonly #settings: Required<FeedSettings>;
  readonly #poller: Loop;
  readonly #followers = new Map<string, Set<Follower>>();
  readonly #catchUps = new Turnstile(CATCH_UPS_AT_ONCE);
  #count = 0;
  /** All up to here was offered to the followers. */
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
    };
    const onError = (error: unknown, where: string) => params.events.emit('error', { error, where });
    this.#poller = new Loop({ name: 'event feed', round: () => this.#poll(), onError });
  }

  get followers(): number {
    return this.#count;
  }

  /** Follows an org's events, from a place in the feed or from now. Close the subscription when done. */
  async follow(
    orgId: string,
    { after, filter = {}, onOverflow = () => {} }: { after?: FeedPosition; filter?: FeedFilter; onOverflow?(): void },
  ): Promise<FeedSubscription> {
    return this.#enter(orgId, (horizon, onClose) => {
      // A place that no transaction has reached yet: the id comes from another database.
      if (after !== undefined && after.txid > horizon.xmax) throw invalidFeedCursor();
      return new FeedSubscription({
        ...{ orgId, filter, onOverflow, onClose, maxBuffered: this.#settings.maxBuffered },
        after: after ?? startOf(horizon.xmin),
        livePosition: () => this.#position,
        read: (from) => this.#catchUps.pass(() => this.#read([orgId], from)),
      });
    });
  }

  /** Watches one job; `readJob` gives its events. */
  async watch(orgId: string, jobId: string): Promise<JobWatch> {
    return this.#enter(orgId, (_, onClose) => new JobWatch({ orgId, jobId, onClose }));
  }

  readJob(orgId: string, { jobId, afterN }: { jobId: string; afterN: number }): Promise<FeedEvent[]> {
    return readJobFeed(this.#database.api, orgId, { jobId, afterN, limit: this.#settings.pageSize });
  }

  /** Ends every subscription. None can be made afterwards. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const followers of [...this.#followers.values()]) for (const follower of [...followers]) follower.close();
    await this.#poller.stop();
  }

  // A place is taken before anything is awaited, so that a crowd arriving at once cannot pass the limits.
  async #enter<F extends Follower>(
    orgId: string,
    make: (horizon: Awaited<ReturnType<typeof feedHorizon>>, onClose: () => void) => F,
  ): Promise<F> {
    const followers = this.#admit(orgId);
    const place: Follower = { orgId, offer() {}, close() {} };
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
    if (followers.size >= this.#settings.maxFollowersPerOrg) {
      const message = `The organisation has ${followers.size} event streams open here, which is the most it may have.`;
      const quota = { limit: 'event_streams', current: followers.size, maximum: this.#settings.maxFollowersPerOrg };
      throw new AppError('QUOTA_EXCEEDED', { message, quota: { ...quota, retryAfterMs: RETRY_AFTER_MS } });
    }
    if (this.#count >= this.#settings.maxFollowers) {
      const message = 'This server has as many event streams open as it may have.';
      throw new AppError('UNAVAILABLE', { message, retryAfterMs: RETRY_AFTER_MS });
    }
    this.#followers.set(orgId, followers);
    return followers;
  }

  async #poll(): Promise<number> {
    if (this.#count === 0) this.#position = null;
    if (this.#position === null) return IDLE_MS;
    const { events, end, hasMore } = await this.#read([...this.#followers.keys()], this.#position);
    this.#position = end;
    const byOrg = Map.groupBy(events, (event) => event.orgId);
    for (const [orgId, followers] of this.#followers) {
      const own = byOrg.get(orgId) ?? [];
      for (const follower of followers) follower.offer(own, end);
    }
    return hasMore ? 0 : this.#settings.pollMs;
  }

  #read(orgIds: readonly string[], after: FeedPosition): Promise<FeedPage> {
    return readFeed(this.#database.api, orgIds, { after, limit: this.#settings.pageSize });
  }
}

/** Lets a few pass at once; the others wait in line. */
class Turnstile {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(places: number) {
    this.#free = places;
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
