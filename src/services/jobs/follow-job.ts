import { AppError } from '../../core/errors.ts';
import { currentAttempt } from '../../core/job.ts';
import { FIRST_LINE, type LogLine } from '../../core/job-log.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import type { Engine } from '../../engine/engine.ts';
import type { JobFacts } from '../../engine/events.ts';
import { JobStory, NEWS_KINDS, type JobNews as News } from '../../engine/follow/job-story.ts';
import { isAbout } from '../../engine/news.ts';
import { WakeSignal } from '../../engine/wake-signal.ts';
import { readJobFeed } from '../../ledger/history/read-feed.ts';
import { readJob } from './read-job.ts';

/** The state of a job changed. */
export type StateNews = {
  /** What kind of news it is. */
  readonly kind: 'state';
  /** When it happened, by the database's clock. */
  readonly at: Date;
  /** The current attempt. The first is 1. */
  readonly attempt: number;
  /** The state before. Null for the first change of a waiting job. */
  readonly from: JobState | null;
  /** The new state. */
  readonly to: JobState;
  /** Why the state changed. */
  readonly reason: Reason;
};

/** The handler of a job reported its progress. */
export type ProgressNews = {
  /** What kind of news it is. */
  readonly kind: 'progress';
  /** When the handler reported it, by the database's clock. */
  readonly at: Date;
  /** The attempt that reported it. */
  readonly attempt: number;
  /** 0 to 100. */
  readonly percent: number;
  /** What the handler is doing. */
  readonly message: string | null;
};

/** The handler of a job logged a line. */
export type LogNews = LogLine & {
  /** What kind of news it is. */
  readonly kind: 'log';
};

/** One thing that happened to a job. */
export type JobNews = StateNews | ProgressNews | LogNews;

export type FollowParams = { orgId: string; id: string; signal?: AbortSignal };

/** Events of this process and hints of others come sooner. */
const LOOK_EVERY_MS = 500;
const EVENTS_PER_READ = 1_000;
const ENDS = ['started', 'completed', 'failed', 'cancelled', 'rescued', 'postponed'] as const;

/** Yields what happened to a job so far, and then what is new, until the job has ended. */
export async function* followJob(engine: Engine, { orgId, id, signal }: FollowParams): AsyncGenerator<JobNews, void> {
  const owner = wholeOrg(orgId);
  const job = await readJob(engine, { ...owner, id });
  if (job === null) throw new AppError('NOT_FOUND', { message: `Job ${String(id).slice(0, 100)} does not exist.` });
  const story = new JobStory({
    wants: new Set(NEWS_KINDS),
    after: { n: 0, lines: FIRST_LINE },
    readEvents: (afterN) => readJobFeed(engine.database.reads.of(orgId), owner, { jobId: job.id, afterN, limit: EVENTS_PER_READ }),
    readNews: (after, lines) => engine.reader.news({ orgId, seq: job.seq, after, lines }),
  });
  const wake = new WakeSignal();
  const stopListening = listen(engine, job, wake);
  const onAbort = () => wake.wake();
  signal?.addEventListener('abort', onAbort);
  try {
    for (;;) {
      signal?.throwIfAborted();
      const news = await story.next();
      for (const each of news) yield toNews(each);
      if (news.length > 0) continue;
      if (story.hasEnded) return;
      signal?.throwIfAborted();
      await wake.wait(LOOK_EVERY_MS);
    }
  } finally {
    stopListening();
    signal?.removeEventListener('abort', onAbort);
  }
}

function listen({ events, notifier }: Engine, { id, seq }: { id: string; seq: number }, wake: WakeSignal): () => void {
  const onEvent = ({ jobId }: Pick<JobFacts, 'jobId'>) => {
    if (jobId === id) wake.wake();
  };
  const stops = ENDS.map((event) => events.on(event, onEvent));
  stops.push(notifier.news.listen((changed) => isAbout(seq, changed) && wake.wake()));
  return () => {
    for (const stop of stops) stop();
  };
}

function toNews(news: News): JobNews {
  if (news.kind === 'log') {
    const { attempt, level, message, fields, at } = news.line;
    return { kind: 'log', at, attempt, level, message, fields };
  }
  if (news.kind === 'progress') {
    const { updatedAt: at, attempt, percent, message } = news.progress;
    return { kind: 'progress', at, attempt: currentAttempt(attempt), percent, message };
  }
  const { at, attempt, from, to, reason } = news.event;
  return { kind: 'state', at, attempt: currentAttempt(attempt), from, to, reason };
}
