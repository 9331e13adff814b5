import type { Engine } from '../../engine/engine.ts';
import type { Admission } from '../../services/admission/admission.ts';
import { submitMany } from '../../services/jobs/submit-many.ts';
import type { Http } from '../door.ts';
import { askerOf, callerOf, judgedByService, needs } from './operation.ts';
import { readBatch } from './read-submission.ts';
import { renderRow } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { named } from './schemas/shapes.ts';
import { BatchResult, BatchSubmission } from './schemas/submission.ts';

const schema = {
  operationId: 'submitJobs',
  summary: 'Submit many jobs',
  description:
    'Accepts 1 to 1000 jobs in one transaction: all or none unless atomic is false. The answer has one result per job, in order; a rejected one says why. Of a batch that is not atomic, jobs that the queue has no room for are rejected with QUOTA_EXCEEDED; one that is atomic is then answered 429.',
  body: named(BatchSubmission),
  response: { 200: answer(BatchResult, 'What became of each job.'), ...errorResponses() },
};

export function submitBatchRoute(http: Http, engine: Engine, admission: Admission): void {
  http.post('/jobs/batch', { schema, ...needs('jobs:write'), ...judgedByService }, async (request) => {
    const { orgId, actor } = callerOf(request);
    const { total, accepted, rejected, results } = await submitMany(engine, {
      ...readBatch(request.body, askerOf(request)),
      orgId,
      actor,
      terms: { requestId: request.id, knownQueuesOnly: true },
      admission,
    });
    return { total, accepted, rejected, results: results.map(renderRow) };
  });
}
