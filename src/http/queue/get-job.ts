import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { readJob } from '../../services/jobs/read-job.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { renderJob } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobStatus } from './schemas/job.ts';
import { JobParams } from './schemas/shapes.ts';

const schema = {
  operationId: 'getJob',
  summary: 'Get a job',
  description: 'Returns one job, with its result and its history on request.',
  params: JobParams,
  querystring: Type.Object(
    {
      include_result: Type.Optional(
        Type.Boolean({ default: false, description: 'Add the result, if the job has one.' }),
      ),
      include_history: Type.Optional(Type.Boolean({ default: false, description: 'Add every state change.' })),
    },
    { additionalProperties: false },
  ),
  response: { 200: answer(JobStatus, 'The job.'), ...errorResponses(404) },
};

export function getJobRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id', { schema, ...needs('jobs:read') }, async (request) => {
    const { orgId, sight } = callerOf(request);
    const { include_result: includeResult, include_history: includeHistory } = request.query;
    const job = await readJob(engine, { orgId, id: request.params.id, includeResult, includeHistory });
    if (job === null) throw noSuchJob(request.params.id);
    return renderJob(job, sight);
  });
}
