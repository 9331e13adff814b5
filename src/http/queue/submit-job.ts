import type { Engine } from '../../engine/engine.ts';
import type { Admission } from '../../services/admission/admission.ts';
import { invalidSubmission } from '../../services/jobs/submission-result.ts';
import { submitJob } from '../../services/jobs/submit-job.ts';
import type { Http } from '../door.ts';
import { askerOf, callerOf, judgedByService, needs } from './operation.ts';
import { readSubmission } from './read-submission.ts';
import { renderSubmission } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { named } from './schemas/shapes.ts';
import { JobSubmission, SubmissionResult } from './schemas/submission.ts';

const schema = {
  operationId: 'submitJob',
  summary: 'Submit a job',
  description:
    'Accepts one job; it is stored durably when the answer is sent. A repeat with the same idempotency_key and content gives the first job (200, DUPLICATE). The same key with other content is refused (409).',
  body: named(JobSubmission),
  response: {
    200: answer(SubmissionResult, 'A repeat of an earlier request: the job of that request.'),
    202: answer(SubmissionResult, 'The job is accepted.'),
    ...errorResponses(409),
  },
};

export function submitJobRoute(http: Http, engine: Engine, admission: Admission): void {
  http.post('/jobs', { schema, ...needs('jobs:write'), ...judgedByService }, async (request, reply) => {
    const { orgId, actor } = callerOf(request);
    const { submission, issues } = readSubmission(request.body, askerOf(request));
    if (issues.length > 0) throw invalidSubmission(issues);
    const terms = { requestId: request.id, knownQueuesOnly: true };
    const result = await submitJob(engine, { orgId, submission, actor, terms, admission });
    return reply.code(result.status === 'ACCEPTED' ? 202 : 200).send(renderSubmission(result));
  });
}
