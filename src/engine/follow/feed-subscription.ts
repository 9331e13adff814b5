import { type Owner, reaches } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import { type FeedEvent, type FeedPage, type FeedPosition, isAfter } from '../../ledger/history/read-feed.ts';
import { WakeSignal } from '../wake-signal.ts';

/** Which events a follower wants; a member that is absent allows all. */
export type FeedFilter = {
  readonly types?: ReadonlySet<string>;
  readonly states?: ReadonlySet<JobState>;
  readonly jobIds?: ReadonlySet<string>;
};

/** What a follower receives next. `position` is where to resume after it. */
export type FeedStep =
  | { readonly kind: 'events'; readonly events: readonly FeedEvent[]; readonly position: FeedPosition }
  | { readonly kind: 'quiet'; readonly position: FeedPosition }
  /** The follower read events more slowly than they came. It is dropped, and nothing follows. */
  | { readonly kind: 'overflowed'; readonly position: FeedPosition }
  | { readonly kind: 'closed'; readonly position: FeedPosition };

/** Receives each page of the poller: the events of its org, and how far the page reaches. */
export type Follower = {
  readonly orgId: string;
  onPage(events: readonly FeedEvent[], end: FeedPosition): void;
  close(): void;
};

export type SubscriptionOptions = {
  owner: Owner;
  after: FeedPosition;
  filter: FeedFilter;
  maxBuffered: number;
  /** How far the poller has read. */
  livePosition(): FeedPosition | null;
  read(after: FeedPosition): Promise<FeedPage>;
  onOverflow(): void;
  onClose(): void;
};

/**
 * One follower of an org's events. It first reads the events that it missed, page by page, at its own pace. When it has
 * caught up with the poller, the pages of the poller go into its buffer. It returns each event once.
 */
export class FeedSubscription implements Follower {
  readonly orgId: string;
  readonly #options: SubscriptionOptions;
  readonly #signal = new WakeSignal();
  #buffer: FeedEvent[] = [];
  /** Everything up to here has been returned or is in the buffer. */
  #seen: FeedPosition;
  /** Everything up to here has been returned. */
  #position: FeedPosition;
  #isLive = false;
  #end: 'overflowed' | 'closed' | null = null;

  constructor(options: SubscriptionOptions) {
    this.orgId = options.owner.orgId;
    this.#options = options;
    this.#seen = options.after;
    this.#position = options.after;
  }

  /** Where to resume after the last events that were returned. */
  get position(): FeedPosition {
    return this.#position;
  }

  /** Returns the next events, or `quiet` if none come in time. Make one call at a time. */
  async next(waitMs: number): Promise<FeedStep> {
    if (this.#end === null && !this.#isLive) return this.#catchUp();
    if (this.#end === null && this.#buffer.length === 0) await this.#signal.wait(waitMs);
    if (this.#end !== null) return { kind: this.#end, position: this.#position };
    const events = this.#buffer;
    this.#buffer = [];
    return this.#hand(events);
  }

  /** Ends the wait of `next`, which then returns `quiet`. */
  wake(): void {
    this.#signal.wake();
  }

  onPage(events: readonly FeedEvent[], end: FeedPosition): void {
    if (!this.#isLive || this.#end !== null) return;
    for (const event of events) {
      if (isAfter(event, this.#seen) && this.#wants(event)) this.#buffer.push(event);
    }
    if (isAfter(end, this.#seen)) this.#seen = end;
    if (this.#buffer.length > this.#options.maxBuffered) this.#finish('overflowed');
    else if (this.#buffer.length > 0) this.#signal.wake();
  }

  close(): void {
    this.#finish('closed');
  }

  async #catchUp(): Promise<FeedStep> {
    const page = await this.#options.read(this.#seen);
    this.#seen = page.end;
    const live = this.#options.livePosition();
    if (live !== null && !isAfter(live, this.#seen)) this.#isLive = true;
    return this.#hand(page.events.filter((event) => this.#wants(event)));
  }

  #hand(events: readonly FeedEvent[]): FeedStep {
    const position = this.#seen;
    this.#position = position;
    return events.length === 0 ? { kind: 'quiet', position } : { kind: 'events', events, position };
  }

  #wants(event: FeedEvent): boolean {
    const { types, states, jobIds } = this.#options.filter;
    return (
      reaches(this.#options.owner, event) &&
      (types === undefined || types.has(event.type)) &&
      (states === undefined || states.has(event.to)) &&
      (jobIds === undefined || jobIds.has(event.jobId))
    );
  }

  #finish(end: 'overflowed' | 'closed'): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#buffer = [];
    this.#signal.wake();
    if (end === 'overflowed') this.#options.onOverflow();
    this.#options.onClose();
  }
}

/** Reports that one job has changed. Its follower then reads the events of the job. */
export class JobWatch implements Follower {
  readonly orgId: string;
  readonly #jobId: string;
  readonly #onClose: () => void;
  readonly #signal = new WakeSignal();
  #isClosed = false;

  constructor({ orgId, jobId, onClose }: { orgId: string; jobId: string; onClose(): void }) {
    this.orgId = orgId;
    this.#jobId = jobId;
    this.#onClose = onClose;
  }

  async next(waitMs: number): Promise<'changed' | 'quiet' | 'closed'> {
    const raised = this.#isClosed || (await this.#signal.wait(waitMs));
    if (this.#isClosed) return 'closed';
    return raised ? 'changed' : 'quiet';
  }

  onPage(events: readonly FeedEvent[]): void {
    if (events.some((event) => event.jobId === this.#jobId)) this.wake();
  }

  /** The job has news. */
  wake(): void {
    this.#signal.wake();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#signal.wake();
    this.#onClose();
  }
}
