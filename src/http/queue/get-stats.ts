import type { Engine } from '../../engine/engine.ts';
import { countJobs } from '../../services/jobs/count-jobs.ts';
import type { Http } from '../door.ts';
import { callerOf, needs } from './operation.ts';
import { renderStats } from './render-stats.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { QueueStats, StatsQuery } from './schemas/stats.ts';

const schema = {
  operationId: 'getStats',
  summary: 'Get statistics',
  description:
    'Returns the number of jobs in each state, the rates at which they are submitted and finished, and how long they wait and run. Live states are counted now; final states, rates and latencies cover the time range.',
  querystring: StatsQuery,
  response: { 200: answer(QueueStats, 'The figures of the org.'), ...errorResponses() },
};

export function getStatsRoute(http: Http, engine: Engine): void {
  http.get('/stats', { schema, ...needs('jobs:read') }, async (request) => {
    const { orgId } = callerOf(request);
    const { time_range: timeRange, breakdown_by: breakdownBy } = request.query;
    return renderStats(await countJobs(engine, { orgId, timeRange, breakdownBy }));
  });
}
