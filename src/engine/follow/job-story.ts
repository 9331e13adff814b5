import type { LogPosition } from '../../core/job-log.ts';
import { isTerminal } from '../../core/states.ts';
import type { StoredLine } from '../../ledger/reads/job-logs.ts';
import type { FoundNews, ReportedProgress } from '../../ledger/reads/job-news.ts';
import type { FeedEvent } from './feed-cursor.ts';

/** What a follower wants in addition to changes of state. */
export const NEWS_KINDS = ['progress', 'log'] as const;
export type NewsKind = (typeof NEWS_KINDS)[number];

/** What happened to a job. `lines` is the last log line that a follower knows after it. */
export type JobNews =
  | { readonly kind: 'state'; readonly event: FeedEvent; readonly lines: LogPosition }
  | { readonly kind: 'progress'; readonly progress: ReportedProgress }
  | { readonly kind: 'log'; readonly line: StoredLine };

export type JobStoryOptions = {
  wants: ReadonlySet<NewsKind>;
  /** The number of the last event and the last line that the follower knows. */
  after: { n: number; lines: LogPosition };
  /** Events after a number, in order. */
  readEvents(afterN: number): Promise<readonly FeedEvent[]>;
  /** The newest progress, and at most `most` lines. */
  readNews(after: LogPosition, most: number): Promise<FoundNews>;
};

const LINES_PER_READ = 100;

/**
 * Reads a job from its submission to its end: changes of state, log lines and progress, in the order of time. Changes and lines are complete.
 * Of progress it returns the newest at each look, and the last of an attempt before the change that ends the attempt.
 */
export class JobStory {
  readonly #options: JobStoryOptions;
  #n: number;
  #lines: LogPosition;
  /** Events that were read, and wait for the lines before them. */
  #events: readonly FeedEvent[] = [];
  #lastProgress: ReportedProgress | null = null;
  /** Whether the last event that was returned ended the job. */
  hasEnded = false;

  constructor(options: JobStoryOptions) {
    this.#options = options;
    this.#n = options.after.n;
    this.#lines = options.after.lines;
  }

  /** The last line that was returned. */
  get lines(): LogPosition {
    return this.#lines;
  }

  /** Returns what is new, or nothing. Make one call at a time. */
  async next(): Promise<JobNews[]> {
    const { wants, readEvents, readNews } = this.#options;
    if (this.#events.length === 0) this.#events = await readEvents(this.#n);
    if (wants.size === 0) return this.#merge(this.#events, [], null);
    // Lines and progress are stored before the event that ends their attempt, so a read after it finds all of them.
    const { progress, lines } = await readNews(this.#lines, wants.has('log') ? LINES_PER_READ : 0);
    const last = lines.at(-1);
    const isCut = lines.length === LINES_PER_READ && last !== undefined;
    const later = isCut ? this.#events.findIndex(({ at }) => at >= last.at) : -1;
    const events = later === -1 ? this.#events : this.#events.slice(0, later);
    return this.#merge(events, lines, isCut || !wants.has('progress') ? null : progress);
  }

  #merge(events: readonly FeedEvent[], lines: readonly StoredLine[], progress: ReportedProgress | null): JobNews[] {
    const news: JobNews[] = [];
    const left = lines.slice();
    let unsent = progress !== null && isOther(progress, this.#lastProgress) ? progress : null;
    const sendUntil = (time: number) => {
      while (left[0] !== undefined && left[0].at.getTime() <= time) {
        if (unsent !== null && unsent.updatedAt < left[0].at) send();
        const line = left.shift() as StoredLine;
        this.#lines = { leaseSeq: line.leaseSeq, n: line.n };
        news.push({ kind: 'log', line });
      }
      if (unsent !== null && unsent.updatedAt.getTime() <= time) send();
    };
    const send = () => {
      this.#lastProgress = unsent;
      news.push({ kind: 'progress', progress: unsent as ReportedProgress });
      unsent = null;
    };
    for (const event of events) {
      // A start may have the same time as the first line.
      sendUntil(event.at.getTime() - (isTerminal(event.to) ? 0 : 1));
      this.#n = event.n;
      this.hasEnded = isTerminal(event.to);
      news.push({ kind: 'state', event, lines: this.#lines });
    }
    sendUntil(Number.POSITIVE_INFINITY);
    this.#events = this.#events.slice(events.length);
    return news;
  }
}

const isOther = (progress: ReportedProgress, known: ReportedProgress | null): boolean =>
  known === null ||
  progress.updatedAt.getTime() !== known.updatedAt.getTime() ||
  progress.percent !== known.percent ||
  progress.message !== known.message;
