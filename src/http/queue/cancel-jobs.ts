import { withFields, withinMember } from '../../core/member-issues.ts';
import type { Engine } from '../../engine/engine.ts';
import { cancelJob, cancelMany } from '../../services/jobs/cancel-job.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob } from './operation.ts';
import { readSearch } from './read-filter.ts';
import { renderError } from './render.ts';
import {
  BatchCancellation,
  BatchCancellationResult,
  CancellationNotFound,
  CancellationRequest,
  CancellationResult,
} from './schemas/cancellation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobParams, named } from './schemas/shapes.ts';
import { STATE_WORDS } from './words.ts';

const oneSchema = {
  operationId: 'cancelJob',
  summary: 'Cancel a job',
  description:
    'A job that is not running is cancelled immediately. A running job is asked to stop (CANCEL_REQUESTED): its signal is aborted now, unless its handler registered for cooperative cancelling, and its next checkpoint stops it. It completes if its handler returns a result nevertheless. With force that result no longer counts, and the job ends after a grace period. A job that has ended does not change (ALREADY_COMPLETE).',
  params: JobParams,
  body: named(CancellationRequest),
  response: {
    ...errorResponses(),
    200: answer(CancellationResult, 'The result of the request.'),
    404: answer(CancellationNotFound, 'The org of the key has no such job.'),
  },
};

export function cancelJobRoute(http: Http, engine: Engine): void {
  const options = { schema: oneSchema, ...needs('jobs:cancel'), ...bodyMayBeAbsent };
  http.post('/jobs/:id/cancel', options, async (request, reply) => {
    const { owner, actor } = callerOf(request);
    const { reason = null, force = false } = request.body;
    const cancelled = await cancelJob(engine, { ...owner, id: request.params.id, actor, requestId: request.id, reason, force });
    const { jobId, status, previousState, message } = cancelled;
    const previous_state = previousState === null ? null : STATE_WORDS[previousState];
    const body = { job_id: jobId, previous_state, message };
    if (status !== 'NOT_FOUND') return reply.send({ ...body, status });
    return reply.code(404).send({ ...body, status, ...renderError(noSuchJob(jobId), request.id) });
  });
}

const manySchema = {
  operationId: 'cancelJobs',
  summary: 'Cancel many jobs',
  description:
    'Cancels the named jobs, the jobs that match a filter, or all jobs of the org. With dry_run nothing changes, and the counts show what would happen.',
  body: named(BatchCancellation),
  response: { 200: answer(BatchCancellationResult, 'The number of jobs with each result.'), ...errorResponses() },
};

export function cancelJobsRoute(http: Http, engine: Engine): void {
  http.post('/jobs/cancel', { schema: manySchema, ...needs('jobs:cancel') }, async (request, reply) => {
    const { owner, actor } = callerOf(request);
    const { job_ids: ids, filter: given, all, reason = null, force = false, dry_run: dryRun = false } = request.body;
    const { filter, page } = given === undefined ? {} : withinMember('filter', () => readSearch(given));
    const target = { ids, filter, all };
    const how = { ...owner, actor, requestId: request.id, reason, force };
    const total = await cancelMany(engine, { ...how, dryRun, target, page, signal: signalOf(reply) }).catch((error: unknown) => {
      // The page is a part of the filter here.
      throw withFields(error, (field) => (field === 'limit' || field === 'cursor' ? `filter.${field}` : field));
    });
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
