import type { Engine } from '../../engine/engine.ts';
import { updateJob } from '../../services/jobs/update-job.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { requirePriority } from './read-submission.ts';
import { renderJob } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobStatus, JobUpdate } from './schemas/job.ts';
import { JobParams, named } from './schemas/shapes.ts';

const schema = {
  operationId: 'updateJob',
  summary: 'Change a job',
  description:
    'Changes tags, correlation_id and callback_url until the job ends, and priority and type until a worker first claims it. All other members are read-only. The type, priority and tags of a job of the execution API cannot be changed.',
  params: JobParams,
  body: named(JobUpdate),
  response: { 200: answer(JobStatus, 'The job as it is now.'), ...errorResponses(404, 409) },
};

export function updateJobRoute(http: Http, engine: Engine): void {
  http.patch('/jobs/:id', { schema, ...needs('jobs:write') }, async (request) => {
    const { identity, orgId, sight } = callerOf(request);
    const { correlation_id: correlationId, callback_url: callbackUrl, ...rest } = request.body;
    requirePriority(identity, rest.priority);
    const job = await updateJob(engine, {
      orgId,
      id: request.params.id,
      update: { ...rest, correlationId, callbackUrl },
    });
    if (job === null) throw noSuchJob(request.params.id);
    return renderJob(job, sight);
  });
}
