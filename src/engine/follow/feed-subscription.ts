import type { JobState } from '../../core/states.ts';
import { type FeedEvent, type FeedPage, type FeedPosition, isAfter } from '../../ledger/history/read-feed.ts';

/** Which events a follower wants; a member that is left out wants all. */
export type FeedFilter = {
  readonly types?: ReadonlySet<string>;
  readonly states?: ReadonlySet<JobState>;
  readonly jobIds?: ReadonlySet<string>;
};

/** What a follower is handed next. `position` is where to resume after it. */
export type FeedStep =
  | { readonly kind: 'events'; readonly events: readonly FeedEvent[]; readonly position: FeedPosition }
  | { readonly kind: 'quiet'; readonly position: FeedPosition }
  /** It took events more slowly than they came and is dropped; nothing more follows. */
  | { readonly kind: 'overflowed'; readonly position: FeedPosition }
  | { readonly kind: 'closed'; readonly position: FeedPosition };

/** Somebody the poller tells about each page: the events of their org, and how far the page reached. */
export type Follower = {
  readonly orgId: string;
  offer(events: readonly FeedEvent[], end: FeedPosition): void;
  close(): void;
};

export type SubscriptionOptions = {
  orgId: string;
  after: FeedPosition;
  filter: FeedFilter;
  maxBuffered: number;
  /** How far the poller has come. */
  livePosition(): FeedPosition | null;
  read(after: FeedPosition): Promise<FeedPage>;
  onOverflow(): void;
  onClose(): void;
};

/**
 * One follower of an org's events. It first reads what it missed, page by page at its own pace; once it has come as far as
 * the poller, the poller's pages are put into its buffer. An event at or before its own place is never handed out again.
 */
export class FeedSubscription implements Follower {
  readonly orgId: string;
  readonly #options: SubscriptionOptions;
  readonly #signal = new Signal();
  #buffer: FeedEvent[] = [];
  /** All up to here is handed out or in the buffer. */
  #seen: FeedPosition;
  /** All up to here is handed out. */
  #position: FeedPosition;
  #isLive = false;
  #end: 'overflowed' | 'closed' | null = null;

  constructor(options: SubscriptionOptions) {
    this.orgId = options.orgId;
    this.#options = options;
    this.#seen = options.after;
    this.#position = options.after;
  }

  /** Where to resume after what was handed out. */
  get position(): FeedPosition {
    return this.#position;
  }

  /** The next events; `quiet` when none came in the time given. One call at a time. */
  async next(waitMs: number): Promise<FeedStep> {
    if (this.#end === null && !this.#isLive) return this.#catchUp();
    if (this.#end === null && this.#buffer.length === 0) await this.#signal.wait(waitMs);
    if (this.#end !== null) return { kind: this.#end, position: this.#position };
    const events = this.#buffer;
    this.#buffer = [];
    return this.#hand(events);
  }

  offer(events: readonly FeedEvent[], end: FeedPosition): void {
    if (!this.#isLive || this.#end !== null) return;
    for (const event of events) {
      if (isAfter(event, this.#seen) && this.#wants(event)) this.#buffer.push(event);
    }
    if (isAfter(end, this.#seen)) this.#seen = end;
    if (this.#buffer.length > this.#options.maxBuffered) this.#finish('overflowed');
    else if (this.#buffer.length > 0) this.#signal.raise();
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
      (types === undefined || types.has(event.type)) &&
      (states === undefined || states.has(event.to)) &&
      (jobIds === undefined || jobIds.has(event.jobId))
    );
  }

  #finish(end: 'overflowed' | 'closed'): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#buffer = [];
    this.#signal.raise();
    if (end === 'overflowed') this.#options.onOverflow();
    this.#options.onClose();
  }
}

/** Tells that one job has changed; its follower then reads the job's own events. */
export class JobWatch implements Follower {
  readonly orgId: string;
  readonly #jobId: string;
  readonly #onClose: () => void;
  readonly #signal = new Signal();
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

  offer(events: readonly FeedEvent[]): void {
    if (events.some((event) => event.jobId === this.#jobId)) this.#signal.raise();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#signal.raise();
    this.#onClose();
  }
}

/** Remembers one raise until somebody waits for it. */
class Signal {
  #isRaised = false;
  #wake: (() => void) | null = null;

  raise(): void {
    this.#isRaised = true;
    this.#wake?.();
  }

  /** Whether it was raised within the time. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isRaised) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = null;
    }
    const raised = this.#isRaised;
    this.#isRaised = false;
    return raised;
  }
}
