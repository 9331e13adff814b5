import type { Static } from 'typebox';
import { formatDuration } from '../../core/duration.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { countJobs, type JobCounts } from '../../services/jobs/count-jobs.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { callerOf, needsOrg } from './operation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { type LatencyStats, QueueStats, StatsQuery } from './schemas/stats.ts';
import { STATE_WORDS } from './words.ts';

const schema = {
  operationId: 'getStats',
  summary: 'Get statistics',
  description:
    'Returns the number of jobs in each state, the rates at which they are submitted and finished, and how long they wait and run. Live states are counted now; final states, rates and latencies cover the time range. Statistics cover the whole org, so a key that is bound to a project is refused (403).',
  querystring: StatsQuery,
  response: { 200: answer(QueueStats, 'The figures of the org.'), ...errorResponses() },
};

export function getStatsRoute(http: Http, engine: Engine): void {
  http.get('/stats', { schema, ...needsOrg('jobs:read') }, async (request, reply) => {
    const { orgId } = callerOf(request).owner;
    const { time_range: timeRange, breakdown_by: breakdownBy } = request.query;
    return renderStats(await countJobs(engine, { orgId, timeRange, breakdownBy, signal: signalOf(reply) }));
  });
}

function renderStats(counts: JobCounts): Static<typeof QueueStats> {
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
