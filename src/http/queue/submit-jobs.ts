import { batchBytes, submissionBytes } from '../../core/body-sizes.ts';
import type { Engine } from '../../engine/engine.ts';
import { refuseForeignDependencies } from '../../services/jobs/own-dependencies.ts';
import { invalidSubmission } from '../../services/jobs/submission-result.ts';
import { submitJob } from '../../services/jobs/submit-job.ts';
import { submitMany } from '../../services/jobs/submit-many.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import type { Intake } from './intake.ts';
import { askerOf, callerOf, judgedByService, needs } from './operation.ts';
import { refuseSelfRegistered } from './own-types.ts';
import { inSentNames, readBatch, readSubmission } from './read-submission.ts';
import { renderRow, renderSubmission } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { named } from './schemas/shapes.ts';
import { BatchResult, BatchSubmission, JobSubmission, SubmissionResult } from './schemas/submission.ts';

/** Values, where a member counts as three. A job with more takes too long in one turn of the event loop, and a batch takes too much memory. */
const SUBMISSION_VALUES = 200_000;
export const BATCH_VALUES = 2_000_000;

export const jsonLimits = (entryBytes: number) => ({ values: SUBMISSION_VALUES, entryValues: SUBMISSION_VALUES, entryBytes });

const oneSchema = {
  operationId: 'submitJob',
  summary: 'Submit a job',
  description:
    'Accepts one job. The response is sent after the job is stored durably. A repeated request with the same idempotency_key and content returns the first job (200, DUPLICATE). The same key with other content is refused (409). With unique or debounce, a job that has the unique key already may be returned instead (200, SKIPPED or UPDATED).',
  body: named(JobSubmission),
  response: {
    200: answer(SubmissionResult, 'The request repeats an earlier one, or a job with its unique key exists. This is that job.'),
    202: answer(SubmissionResult, 'The job is accepted.'),
    ...errorResponses(409),
  },
};

export function submitJobRoute(http: Http, engine: Engine, { admission, simulation }: Intake): void {
  const bodyLimit = submissionBytes(engine.limits.maxPayloadBytes);
  const config = { ...needs('jobs:write').config, json: jsonLimits(bodyLimit) };
  const options = { schema: oneSchema, config, ...judgedByService, bodyLimit };
  http.post('/jobs', options, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { submission, issues } = readSubmission(request.body, askerOf(request));
    if (issues.length > 0) throw invalidSubmission(issues);
    if (owner.projectId !== null) for (const [, error] of await refuseForeignDependencies(engine, owner, [submission])) throw error;
    const terms = { requestId: request.id, knownQueuesOnly: true, simulation };
    const result = await submitJob(engine, { orgId: owner.orgId, submission, actor, terms, admission }).catch((error: unknown) => {
      throw inSentNames(error, request.body);
    });
    request.jobId = result.jobId;
    return reply.code(result.status === 'ACCEPTED' ? 202 : 200).send(renderSubmission(result));
  });
}

const batchSchema = {
  operationId: 'submitJobs',
  summary: 'Submit many jobs',
  description:
    'Accepts 1 to 1000 jobs in one transaction: all or none unless atomic is false. The response has one result per job, in order, with the error of each rejected job. If the queue is too full, an atomic batch is refused with 429. Without atomic, the jobs that do not fit are rejected with QUOTA_EXCEEDED.',
  body: named(BatchSubmission),
  response: { 200: answer(BatchResult, 'The result of each job.'), ...errorResponses() },
};

export function submitBatchRoute(http: Http, engine: Engine, { admission, simulation }: Intake): void {
  const { maxPayloadBytes } = engine.limits;
  const bodyLimit = batchBytes(maxPayloadBytes);
  const json = { ...jsonLimits(submissionBytes(maxPayloadBytes)), values: BATCH_VALUES };
  const config = { ...needs('jobs:write').config, json };
  const options = { schema: batchSchema, config, ...judgedByService, bodyLimit };
  http.post('/jobs/batch', options, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { submissions, refused, atomic } = await readBatch(request.body, askerOf(request));
    const foreign = await refuseForeignDependencies(engine, owner, submissions);
    const { total, accepted, rejected, results } = await submitMany(engine, {
      submissions,
      refused: new Map([...foreign, ...refused]),
      atomic,
      orgId: owner.orgId,
      actor,
      terms: { requestId: request.id, knownQueuesOnly: true, simulation },
      admission,
      signal: signalOf(reply),
    });
    return { total, accepted, rejected, results: results.map((result, index) => renderRow(result, request.body.jobs[index])) };
  });
}
