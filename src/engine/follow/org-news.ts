import { type Owner, reaches } from '../../core/owner.ts';
import { isTerminal } from '../../core/states.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { type ChangedNews, type LineRange, type NamedJob, type OrgNews, readOrgNews } from '../../ledger/reads/job-news.ts';
import type { EventHub } from '../events.ts';
import { Loop } from '../loop.ts';
import type { NewsHints } from '../news.ts';
import type { FeedEvent } from './feed-cursor.ts';
import type { FeedFilter } from './feed-subscription.ts';
import type { NewsKind } from './job-story.ts';

const IDLE_MS = 60_000;
/** Of one hint, which may name all lines of an attempt. */
const LINES_PER_RANGE = 100;
/** Hints that wait for a read. Those beyond this are dropped. */
const MAX_PENDING = 1_000;
/** Lines that wait for a follower. It loses the oldest if it reads too slowly. */
const MAX_LINES = 1_000;
const MAX_REMEMBERED = 10_000;

export type { OrgNews };

type NewsFollower = { owner: Owner; filter: FeedFilter; wants: ReadonlySet<NewsKind>; onNews(): void };

/**
 * Reads progress and log lines for followers of whole orgs, when a hint says that there are some. News that come while nobody follows, or
 * whose hint is lost, are not delivered. The last progress of a job always is, because it is read when the job ends.
 */
export class OrgNewsFeed {
  readonly #database: Database;
  readonly #hints: () => NewsHints;
  readonly #loop: Loop;
  readonly #followers = new Map<string, Set<OrgNewsSubscription>>();
  #progress = new Map<number, NamedJob>();
  #lines: LineRange[] = [];
  #unlisten: (() => void) | null = null;

  constructor({ database, events, hints }: { database: Database; events: EventHub; hints(): NewsHints }) {
    this.#database = database;
    this.#hints = hints;
    this.#loop = new Loop({ name: 'news feed', round: () => this.#round(), events });
  }

  /** Close the subscription when done. */
  follow(follower: NewsFollower): OrgNewsSubscription {
    const { orgId } = follower.owner;
    const followers = this.#followers.get(orgId) ?? new Set();
    const subscription: OrgNewsSubscription = new OrgNewsSubscription(follower, {
      read: (jobs) => readOrgNews(this.#database.api, { progress: jobs, lines: [] }, 0),
      onClose: () => {
        followers.delete(subscription);
        if (followers.size === 0 && this.#followers.get(orgId) === followers) this.#followers.delete(orgId);
        if (this.#followers.size === 0) this.#stopListening();
      },
    });
    followers.add(subscription);
    this.#followers.set(orgId, followers);
    this.#unlisten ??= this.#hints().listen((changed) => this.#note(changed));
    this.#loop.start();
    return subscription;
  }

  async stop(): Promise<void> {
    this.#stopListening();
    await this.#loop.stop();
  }

  #stopListening(): void {
    this.#unlisten?.();
    this.#unlisten = null;
  }

  #note({ progress, lines }: ChangedNews): void {
    for (const job of progress) {
      if (this.#followers.has(job.orgId) && this.#progress.size < MAX_PENDING) this.#progress.set(job.seq, job);
    }
    for (const range of lines) {
      if (this.#followers.has(range.orgId) && this.#lines.length < MAX_PENDING) this.#lines.push(range);
    }
    if (this.#progress.size > 0 || this.#lines.length > 0) this.#loop.wake();
  }

  async #round(): Promise<number> {
    const changed = { progress: [...this.#progress.values()], lines: this.#lines };
    if (changed.progress.length === 0 && changed.lines.length === 0) return IDLE_MS;
    this.#progress = new Map();
    this.#lines = [];
    for (const news of await readOrgNews(this.#database.api, changed, LINES_PER_RANGE)) {
      for (const follower of this.#followers.get(news.orgId) ?? []) follower.onNews(news);
    }
    return this.#progress.size > 0 || this.#lines.length > 0 ? 0 : IDLE_MS;
  }
}

type SubscriptionParts = { read(jobs: readonly NamedJob[]): Promise<OrgNews[]>; onClose(): void };

/** The news that wait for one follower. Of each job it keeps the newest progress. */
export class OrgNewsSubscription {
  readonly #follower: NewsFollower;
  readonly #parts: SubscriptionParts;
  readonly #progress = new Map<number, OrgNews>();
  #lines: OrgNews[] = [];
  /** When the last progress of each job that was returned was reported. */
  readonly #sent = new Map<number, number>();

  constructor(follower: NewsFollower, parts: SubscriptionParts) {
    this.#follower = follower;
    this.#parts = parts;
  }

  onNews(news: OrgNews): void {
    if (!this.#wants(news)) return;
    if (news.line !== null) {
      this.#lines.push(news);
      if (this.#lines.length > MAX_LINES) this.#lines = this.#lines.slice(-MAX_LINES);
    } else if (this.#isNew(news)) this.#progress.set(news.jobSeq, news);
    this.#follower.onNews();
  }

  /** Returns the events with the news that came since the last call. An event that ends a job comes after the last progress of the job. */
  async weave(events: readonly FeedEvent[]): Promise<(FeedEvent | OrgNews)[]> {
    const ended = events.filter(({ to }) => isTerminal(to)).map(({ orgId, jobSeq }) => ({ orgId, seq: jobSeq }));
    if (ended.length > 0 && this.#follower.wants.has('progress')) for (const news of await this.#parts.read(ended)) this.onNews(news);
    const news = Map.groupBy(this.#take(), ({ jobSeq }) => jobSeq);
    const woven: (FeedEvent | OrgNews)[] = [];
    for (const event of events) {
      if (isTerminal(event.to)) {
        woven.push(...(news.get(event.jobSeq) ?? []));
        news.delete(event.jobSeq);
        this.#sent.delete(event.jobSeq);
      }
      woven.push(event);
    }
    for (const others of news.values()) woven.push(...others);
    return woven;
  }

  #take(): OrgNews[] {
    const news = [...this.#progress.values(), ...this.#lines];
    this.#progress.clear();
    this.#lines = [];
    for (const each of news) this.#remember(each);
    return news;
  }

  close(): void {
    this.#parts.onClose();
  }

  #isNew({ jobSeq, progress }: OrgNews): boolean {
    return progress !== null && progress.updatedAt.getTime() !== this.#sent.get(jobSeq);
  }

  #remember({ jobSeq, progress }: OrgNews): void {
    if (progress === null) return;
    this.#sent.set(jobSeq, progress.updatedAt.getTime());
    if (this.#sent.size <= MAX_REMEMBERED) return;
    const [oldest] = this.#sent.keys();
    this.#sent.delete(oldest as number);
  }

  #wants(news: OrgNews): boolean {
    const { owner, filter, wants } = this.#follower;
    return (
      wants.has(news.line === null ? 'progress' : 'log') &&
      reaches(owner, news) &&
      (filter.types === undefined || filter.types.has(news.type)) &&
      (filter.jobIds === undefined || filter.jobIds.has(news.jobId))
    );
  }
}
