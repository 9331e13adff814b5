import type { Engine } from '../../engine/engine.ts';
import { retryJob } from '../../services/jobs/retry-job.ts';
import { updateJob } from '../../services/jobs/update-job.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob, requesterOf } from './operation.ts';
import { requireOwnType } from './own-types.ts';
import { requirePriority } from './read-submission.ts';
import { renderError, renderJob, timeOrNull } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { RetryNotFound, RetryRequest, RetryResult } from './schemas/failure.ts';
import { JobStatus, JobUpdate } from './schemas/job.ts';
import { JobParams, named } from './schemas/shapes.ts';
import { STATE_WORDS } from './words.ts';

const updateSchema = {
  operationId: 'updateJob',
  summary: 'Change a job',
  description:
    'Changes tags, correlation_id and callback_url until the job ends, and priority and type until a worker first claims it. All other fields are read-only. The type, priority and tags of a job of the execution API cannot be changed.',
  params: JobParams,
  body: named(JobUpdate),
  response: { 200: answer(JobStatus, 'The job as it is now.'), ...errorResponses(404, 409) },
};

export function updateJobRoute(http: Http, engine: Engine): void {
  http.patch('/jobs/:id', { schema: updateSchema, ...needs('jobs:write') }, async (request) => {
    const { identity, owner, sight } = callerOf(request);
    const { correlation_id: correlationId, callback_url: callbackUrl, reason, ...rest } = request.body;
    requirePriority(identity, rest.priority);
    await requireOwnType(engine, identity, request.params.id);
    const job = await updateJob(engine, {
      ...owner,
      id: request.params.id,
      update: { ...rest, correlationId, callbackUrl },
      requester: requesterOf(request, reason),
    });
    if (job === null) throw noSuchJob(request.params.id);
    return renderJob(job, sight);
  });
}

const retrySchema = {
  operationId: 'retryJob',
  summary: 'Retry a job',
  description:
    'Queues a FAILED or DEAD_LETTER job for another attempt (QUEUED), or reports that this is not possible (NOT_RETRIABLE). The lifetime of the job starts again.',
  params: JobParams,
  body: named(RetryRequest),
  response: {
    ...errorResponses(),
    200: answer(RetryResult, 'The result of the request.'),
    404: answer(RetryNotFound, 'The org of the key has no such job.'),
  },
};

export function retryJobRoute(http: Http, engine: Engine): void {
  http.post('/jobs/:id/retry', { schema: retrySchema, ...needs('jobs:write'), ...bodyMayBeAbsent }, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    const { reset_attempts: resetAttempts = false, priority, delay, reason = null } = request.body;
    requirePriority(identity, priority);
    await requireOwnType(engine, identity, request.params.id);
    const retried = await retryJob(engine, {
      ...owner,
      id: request.params.id,
      actor,
      requestId: request.id,
      reason,
      resetAttempts,
      priority,
      delay,
    });
    const { jobId, status, newState, scheduledFor } = retried;
    const body = {
      job_id: jobId,
      new_state: newState === null ? null : STATE_WORDS[newState],
      scheduled_for: timeOrNull(scheduledFor),
    };
    if (status !== 'NOT_FOUND') return reply.send({ ...body, status });
    return reply.code(404).send({ ...body, status, ...renderError(noSuchJob(jobId), request.id) });
  });
}
