import type { Static } from 'typebox';
import { formatDuration } from '../../core/duration.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';
import type { JobCounts } from '../../services/jobs/count-jobs.ts';
import type { LatencyStats, QueueStats } from './schemas/stats.ts';
import { STATE_WORDS } from './words.ts';

export function renderStats(counts: JobCounts): Static<typeof QueueStats> {
  const { byType, byPriority, byState } = counts;
  return {
    ...counts.states,
    submission_rate: counts.submissionRate,
    completion_rate: counts.completionRate,
    failure_rate: counts.failureRate,
    queue_latency: renderLatency(counts.queueLatency),
    execution_time: renderLatency(counts.executionTime),
    ...(byType === undefined ? {} : { by_type: byType }),
    ...(byPriority === undefined ? {} : { by_priority: byPriority }),
    ...(byState === undefined ? {} : { by_state: renderStates(byState) }),
  };
}

function renderLatency(latency: JobCounts['queueLatency']): Static<typeof LatencyStats> {
  if (latency === null) return { p50: null, p90: null, p99: null, max: null };
  const { p50Ms, p90Ms, p99Ms, maxMs } = latency;
  return {
    p50: formatDuration(p50Ms),
    p90: formatDuration(p90Ms),
    p99: formatDuration(p99Ms),
    max: formatDuration(maxMs),
  };
}

function renderStates(byState: Record<JobState, NonNullable<JobCounts['byState']>[JobState]>) {
  return Object.fromEntries(JOB_STATES.map((state) => [STATE_WORDS[state], byState[state]]));
}
