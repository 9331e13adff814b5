import type { Static } from 'typebox';
import { lookUp } from '../../core/dictionary.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { FAR_FUTURE } from '../../engine/upkeep/cron-times.ts';
import type { Schedule } from '../../services/schedules/schedule-controls.ts';
import { timeOrNull } from './render.ts';
import type { Schedule as Rendered } from './schemas/schedule.ts';
import { BACKOFF_MEMBERS } from './words.ts';

type Shown = Static<typeof Rendered>;
type Stored = Readonly<Record<string, unknown>>;

export function renderSchedule(schedule: Schedule): Shown {
  const { key, cron, missed, overlap, skipped, reason, pausedAt, nextAt } = schedule;
  const hasNext = pausedAt === null && nextAt < FAR_FUTURE;
  return {
    key,
    ...renderJob(schedule.submission as Stored),
    cron,
    time_zone: schedule.timeZone,
    missed,
    overlap,
    paused: pausedAt !== null,
    next_at: hasNext ? formatTimestamp(nextAt) : null,
    last_at: timeOrNull(schedule.lastFiredAt),
    last_job_id: schedule.lastJobId,
    last_skipped_at: timeOrNull(schedule.lastSkippedAt),
    skipped,
    created_at: formatTimestamp(schedule.createdAt),
    updated_at: formatTimestamp(schedule.updatedAt),
    reason,
    project_id: schedule.projectId,
  };
}

/** The job as it was given. A member that was not given is null. */
function renderJob(job: Stored) {
  const member = <Name extends keyof Shown>(name: string): Shown[Name] => (lookUp(job, name) ?? null) as Shown[Name];
  const backoff = lookUp(job, 'backoff') as Stored | null | undefined;
  return {
    type: member<'type'>('type'),
    payload: (job.payload ?? {}) as Shown['payload'],
    priority: member<'priority'>('priority'),
    queue: member<'queue'>('queue'),
    tags: member<'tags'>('tags'),
    delay: member<'delay'>('delay'),
    timeout: member<'timeout'>('timeout'),
    lifetime: member<'lifetime'>('lifetime'),
    max_attempts: member<'max_attempts'>('maxAttempts'),
    backoff: backoff == null ? null : renderBackoff(backoff),
    correlation_id: member<'correlation_id'>('correlationId'),
    callback_url: member<'callback_url'>('callbackUrl'),
    limit: member<'limit'>('limit'),
    category: member<'category'>('category'),
  };
}

const renderBackoff = (backoff: Stored): Shown['backoff'] =>
  Object.fromEntries(Object.entries(BACKOFF_MEMBERS).flatMap(([wire, core]) => (core in backoff ? [[wire, backoff[core]]] : [])));
