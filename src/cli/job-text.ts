import type { RecordedAttempt } from '../ledger/reads/job-attempts.ts';
import type { JobView } from '../services/jobs/read-job.ts';
import { toJson } from './output.ts';
import { textFacts, textTable } from './text-table.ts';

const WIDEST_VALUE = 400;

export type JobWithAttempts = JobView & { readonly attempts?: readonly RecordedAttempt[] };

export function jobLines(job: JobWithAttempts): string[] {
  return [...factLines(job), ...historyLines(job), ...attemptLines(job)];
}

function factLines(job: JobWithAttempts): string[] {
  const { lastFailure, result, progress } = job;
  return textFacts([
    ['id', job.id],
    ['type', job.type],
    ['state', job.state],
    ['queue', job.queue],
    ['priority', job.priority],
    ['attempt', `${job.attempt} of ${job.maxAttempts}${job.attemptsStarted === 0 ? ', not started' : ''}`],
    ['created', timeText(job.createdAt)],
    ['due', timeText(job.scheduledFor)],
    ['started', timeText(job.startedAt)],
    ['ended', timeText(job.completedAt)],
    ['asked to stop', timeText(job.cancelRequestedAt)],
    ['progress', progress === undefined ? null : `${progress.percent} %${progress.message === null ? '' : ` ${progress.message}`}`],
    ['failure', lastFailure === null ? null : `${lastFailure.category} ${lastFailure.code}: ${lastFailure.message}`],
    ['key', job.idempotencyKey],
    ['correlation', job.correlationId],
    ['category', job.category],
    ['project', job.projectId],
    ['trace', job.traceparent],
    [
      'tags',
      job.tags === null
        ? null
        : Object.entries(job.tags)
            .map((pair) => pair.join('='))
            .join(' '),
    ],
    ['depends on', job.dependsOn.join(' ')],
    ['parent', job.parentId],
    ['payload', cut(toJson(job.payload))],
    ['result', result === undefined || result.output === null ? null : cut(toJson(result.output))],
  ]);
}

function historyLines({ history }: JobWithAttempts): string[] {
  if (history === undefined) return [];
  const rows = history.map(({ at, from, to, reason, attempt }) => [at.toISOString(), from ?? '', to, reason, String(attempt)]);
  return ['', ...textTable(['at', 'from', 'to', 'reason', 'attempt'], rows)];
}

function attemptLines({ attempts }: JobWithAttempts): string[] {
  if (attempts === undefined) return [];
  if (attempts.length === 0) return ['', 'No attempt has started.'];
  const rows = attempts.map(({ attempt, startedAt, finishedAt, result, workerId, failure }) => [
    String(attempt),
    startedAt.toISOString(),
    finishedAt?.toISOString() ?? '',
    result ?? 'running',
    workerId ?? '',
    failure === null ? '' : `${failure.code}: ${failure.message}`,
  ]);
  return ['', ...textTable(['attempt', 'started', 'ended', 'result', 'worker', 'failure'], rows)];
}

const timeText = (time: Date | null): string | null => time?.toISOString() ?? null;
const cut = (text: string): string => (text.length <= WIDEST_VALUE ? text : `${text.slice(0, WIDEST_VALUE)}... (--json shows all)`);
