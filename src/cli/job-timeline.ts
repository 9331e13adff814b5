import type { Failure } from '../core/failure.ts';
import type { StateTransition } from '../core/job.ts';
import type { LogLine } from '../core/job-log.ts';
import type { RecordedAttempt } from '../ledger/reads/job-attempts.ts';
import type { JobNews } from '../services/jobs/follow-job.ts';
import type { JobWithAttempts } from './job-text.ts';

/** What happened to a job at one moment. More kinds of entries can be added; they are sorted by time. */
export type TimelineEntry = StateEntry | ProgressEntry | LogEntry;

type StateEntry = Pick<StateTransition, 'at' | 'from' | 'to' | 'reason' | 'attempt' | 'actor'> & {
  kind: 'state';
  /** Only for the start of an attempt. */
  worker: string | null;
  host: string | null;
  /** Only for the end of an attempt that failed. */
  failure: Failure | null;
};

type LogEntry = { kind: 'log' } & LogLine;

type ProgressEntry = { kind: 'progress'; at: Date; attempt: number; percent: number; message: string | null };

/** Everything that is known of a job, oldest first. Only the newest progress of a job is stored. */
export function timelineOf(job: JobWithAttempts, lines: readonly LogLine[] = []): TimelineEntry[] {
  const { history = [], attempts = [], progress } = job;
  const entries: TimelineEntry[] = [...stateEntries(history, attempts)];
  for (const { at, attempt, level, message, fields } of lines) entries.push({ kind: 'log', at, attempt, level, message, fields });
  if (progress !== undefined) {
    const { updatedAt, percent, message } = progress;
    entries.push({ kind: 'progress', at: updatedAt, attempt: job.attempt, percent, message });
  }
  return entries.sort((a, b) => a.at.getTime() - b.at.getTime());
}

/** Attempts are the starts of the history, in the same order. The entry after a start ends its attempt. */
function* stateEntries(history: readonly StateTransition[], attempts: readonly RecordedAttempt[]): Generator<StateEntry> {
  const left = [...attempts];
  let open: RecordedAttempt | undefined;
  for (const { at, from, to, reason, attempt, actor } of history) {
    const started: RecordedAttempt | undefined = to === 'running' ? left.shift() : undefined;
    yield {
      ...{ kind: 'state', at, from, to, reason, attempt, actor },
      worker: started?.workerId ?? null,
      host: started?.host ?? null,
      failure: open?.failure ?? null,
    };
    open = started;
  }
}

export function timelineLines(entry: TimelineEntry): string[] {
  if (entry.kind !== 'state') return [newsLine(entry)];
  const at = entry.at.toISOString();
  const { to, reason, attempt, actor, worker, host, failure } = entry;
  const facts = [
    reason,
    ...(attempt === 0 ? [] : [`attempt ${attempt}`]),
    ...(worker === null ? [] : [`on ${worker}${host === null ? '' : ` (${host})`}`]),
    ...(actor === null ? [] : [`by ${actor.type} ${actor.id}`]),
    ...(failure === null ? [] : [`${failure.category} ${failure.code}: ${failure.message}`]),
  ];
  return [`${at}  ${to.padEnd(9)}  ${facts.join(', ')}`, ...stackLines(failure)];
}

/** What happened, without the facts that only a read of the whole job returns. */
export function newsLine(news: JobNews): string {
  const { attempt } = news;
  const at = news.at.toISOString();
  if (news.kind === 'state') return `${at}  ${news.to.padEnd(9)}  ${news.reason}, attempt ${attempt}`;
  if (news.kind === 'progress') {
    return `${at}  progress   attempt ${attempt}: ${news.percent} %${news.message === null ? '' : ` ${news.message}`}`;
  }
  const fields = Object.keys(news.fields).length === 0 ? '' : ` ${JSON.stringify(news.fields)}`;
  return `${at}  ${news.level.padEnd(9)}  attempt ${attempt}: ${news.message}${fields}`;
}

const stackLines = (failure: Failure | null): string[] =>
  (failure?.stackTrace ?? '')
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '')
    .map((line) => `    ${line.trim()}`);
