import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply } from 'fastify';
import { type AppError, isAppError } from '../../core/errors.ts';
import { currentAttempt } from '../../core/job.ts';
import type { LogPosition } from '../../core/job-log.ts';
import type { Owner } from '../../core/owner.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { EventFeed } from '../../engine/follow/feed.ts';
import type { FeedCursors, FeedEvent, FeedPosition } from '../../engine/follow/feed-cursor.ts';
import type { FeedSubscription, JobWatch } from '../../engine/follow/feed-subscription.ts';
import { type JobNews, JobStory, type NewsKind } from '../../engine/follow/job-story.ts';
import type { OrgNewsSubscription } from '../../engine/follow/org-news.ts';
import type { Reader } from '../../engine/follow/reader.ts';
import { logText, orgNewsText, progressText } from './news-text.ts';
import { STATE_WORDS } from './words.ts';

/** How long browsers wait before they reconnect. */
const RETRY_MS = 1_000;
const EVENTS_IN_A_CHUNK = 100;

/**
 * Sends a stream of text. It reads the text only as fast as the client does, so a slow client costs one socket buffer.
 * `onEnd` is called when either side closes the stream.
 */
export function sendEventStream(reply: FastifyReply, text: AsyncGenerator<string>, onEnd: () => void): void {
  const headers = reply.getHeaders() as Record<string, string>;
  reply.hijack();
  reply.raw.once('close', onEnd);
  reply.raw.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    connection: 'close', // A server that shuts down waits for keep-alive connections; this one ends with its stream.
  });
  // A client that disconnects is not an error, even if it did so before the first event.
  pipeline(Readable.from(text, { objectMode: false }), reply.raw)
    .catch(() => {})
    .finally(onEnd);
}

/** Sends the start position, so that a client that disconnects before the first event can resume without a gap. */
const opening = (id: string): string => `retry: ${RETRY_MS}\nid: ${id}\n: connected\n\n`;

/** Keeps the connection alive, and moves the resume position past events that the filter excludes. */
const heartbeat = (id: string): string => `id: ${id}\n: heartbeat\n\n`;

function* chunks<T>(items: readonly T[], textOf: (item: T) => string): Generator<string> {
  for (let at = 0; at < items.length; at += EVENTS_IN_A_CHUNK) {
    yield items
      .slice(at, at + EVENTS_IN_A_CHUNK)
      .map(textOf)
      .join('');
  }
}

function eventText(event: FeedEvent, id: string): string {
  const data = {
    job_id: event.jobId,
    type: event.type,
    from_state: event.from === null ? null : STATE_WORDS[event.from],
    to_state: STATE_WORDS[event.to],
    timestamp: formatTimestamp(event.at),
    reason: event.reason,
    attempt: currentAttempt(event.attempt),
    sequence: event.n,
  };
  return `id: ${id}\nevent: job.${event.to}\ndata: ${JSON.stringify(data)}\n\n`;
}

const STREAM_ENDS = {
  SLOW_CONSUMER: 'The client reads events too slowly. Resume after last_event_id.',
  SHUTTING_DOWN: 'The server is shutting down. Resume after last_event_id.',
  UNAVAILABLE: 'Events are not available now. Resume after last_event_id.',
} as const;

/** The last event of a stream that the server ends. */
function farewell(end: Pick<AppError, 'code' | 'message'> | keyof typeof STREAM_ENDS, id: string) {
  const { code, message } = typeof end === 'string' ? { code: end, message: STREAM_ENDS[end] } : end;
  return `id: ${id}\nevent: error\ndata: ${JSON.stringify({ code, message, last_event_id: id })}\n\n`;
}

export type StreamRules = {
  readonly ids: FeedCursors;
  readonly heartbeatMs: number;
  /** Throws when the caller's key is no longer valid. */
  check(): Promise<unknown>;
};

/** How often a stream checks its key. The authenticator caches keys, so a check is cheap. */
const LOOK_MS = 1_000;

/** The stream of an org. If the server ends it, the last event gives the reason. */
export async function* orgStreamText(
  subscription: FeedSubscription,
  news: OrgNewsSubscription | null,
  rules: StreamRules,
): AsyncGenerator<string> {
  const { ids } = rules;
  const pulse = new Pulse(rules.heartbeatMs);
  yield opening(ids.write(subscription.position));
  try {
    for (;;) {
      await rules.check();
      const step = await subscription.next(pulse.waitMs);
      if (step.kind === 'overflowed') return yield farewell('SLOW_CONSUMER', ids.write(step.position));
      if (step.kind === 'closed') return yield farewell('SHUTTING_DOWN', ids.write(step.position));
      const events = step.kind === 'events' ? step.events : [];
      const unsent = news === null ? events : await news.weave(events);
      yield* chunks(unsent, (item) => ('to' in item ? eventText(item, ids.idOf(item)) : orgNewsText(item)));
      if (unsent.length > 0) pulse.beat();
      else if (pulse.isDue()) yield heartbeat(ids.write(step.position));
    }
  } catch (error) {
    yield farewell(reasonOf(error), ids.write(subscription.position));
  }
}

export type FollowedJob = {
  feed: EventFeed;
  reader: Reader;
  watch: JobWatch;
  owner: Owner;
  job: { id: string; seq: number; type: string };
  wants: ReadonlySet<NewsKind>;
  after: FeedPosition & { readonly lines: LogPosition };
};

/** The stream of a job: its history, then what is new, until the job has ended. */
export async function* jobStreamText(followed: FollowedJob, rules: StreamRules): AsyncGenerator<string> {
  const { ids } = rules;
  const { watch, after } = followed;
  const pulse = new Pulse(rules.heartbeatMs);
  const story = storyOf(followed);
  let position: FeedPosition = after;
  const placeOf = () => ids.write(position, story.lines);
  const textOf = (news: JobNews): string => {
    const { job } = followed;
    if (news.kind === 'progress') return progressText(job, news.progress);
    if (news.kind === 'log') return logText(job, news.line, ids.write(position, news.line));
    position = news.event;
    return eventText(news.event, news.lines.leaseSeq === 0 ? ids.idOf(news.event) : ids.write(news.event, news.lines));
  };
  yield opening(placeOf());
  try {
    for (;;) {
      await rules.check();
      const news = await story.next();
      if (news.length > 0) {
        yield* chunks(news, textOf);
        pulse.beat();
        continue; // There may be more: a job can be retried after its end.
      }
      if (story.hasEnded) return;
      if (pulse.isDue()) yield heartbeat(placeOf());
      if ((await watch.next(pulse.waitMs)) === 'closed') return yield farewell('SHUTTING_DOWN', placeOf());
    }
  } catch (error) {
    yield farewell(reasonOf(error), placeOf());
  }
}

function storyOf({ feed, reader, owner, job, wants, after }: FollowedJob): JobStory {
  return new JobStory({
    wants,
    after: { n: after.n, lines: after.lines },
    readEvents: (afterN) => feed.readJob(owner, { jobId: job.id, afterN }),
    readNews: (lines, most) => reader.news({ orgId: owner.orgId, seq: job.seq, after: lines, lines: most }),
  });
}

/** A client learns that its key was refused. Every other error is reported as UNAVAILABLE. */
function reasonOf(error: unknown) {
  const isRefusal = isAppError(error, 'UNAUTHORIZED') || isAppError(error, 'FORBIDDEN');
  return isRefusal ? error : 'UNAVAILABLE';
}

class Pulse {
  readonly waitMs: number;
  readonly #everyMs: number;
  #lastMs = performance.now();

  constructor(everyMs: number) {
    this.waitMs = Math.min(everyMs, LOOK_MS);
    this.#everyMs = everyMs;
  }

  beat(): void {
    this.#lastMs = performance.now();
  }

  isDue(): boolean {
    if (performance.now() - this.#lastMs < this.#everyMs) return false;
    this.beat();
    return true;
  }
}
