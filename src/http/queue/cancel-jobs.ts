import type { Engine } from '../../engine/engine.ts';
import { cancelMany } from '../../services/jobs/cancel-job.ts';
import type { Http } from '../door.ts';
import { callerOf, needs } from './operation.ts';
import { readSearch } from './read-filter.ts';
import { BatchCancellation, BatchCancellationResult } from './schemas/cancellation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { named } from './schemas/shapes.ts';

const schema = {
  operationId: 'cancelJobs',
  summary: 'Cancel many jobs',
  description:
    'Cancels the jobs named, or those that match a filter. With dry_run the counters say what would happen and nothing changes.',
  body: named(BatchCancellation),
  response: { 200: answer(BatchCancellationResult, 'How many jobs met which fate.'), ...errorResponses() },
};

export function cancelJobsRoute(http: Http, engine: Engine): void {
  http.post('/jobs/cancel', { schema, ...needs('jobs:cancel') }, async (request) => {
    const { orgId, actor } = callerOf(request);
    const { job_ids: ids, filter, reason = null, force = false, dry_run: dryRun = false } = request.body;
    const target = filter === undefined ? {} : readSearch(filter);
    const total = await cancelMany(engine, { orgId, actor, reason, force, dryRun, ids, ...target });
    return {
      requested: total.requested,
      cancelled: total.cancelled,
      skipped: total.skipped,
      failed: total.failed,
      errors: total.errors.map(({ jobId, code, message }) => ({ job_id: jobId, code, message })),
      dry_run: total.dryRun,
    };
  });
}
