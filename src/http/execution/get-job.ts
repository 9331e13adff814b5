import type { ExecutionContext } from '../../services/execution/context.ts';
import { readExecution } from '../../services/execution/read-execution.ts';
import type { Http } from '../door.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf, JobParams, needs, problemResponses } from './operation.ts';
import { renderExecution } from './render.ts';
import { ExecutionJob } from './schemas/job.ts';

const schema = {
  operationId: 'getExecution',
  summary: 'Get a job',
  description: 'The definition of a job, its state, and its outcome once it has one.',
  params: JobParams,
  response: { ...problemResponses(404), 200: answer(ExecutionJob, 'The job.') },
};

export function getJobRoute(http: Http, context: ExecutionContext): void {
  http.get('/jobs/:job_id', { schema, ...needs('jobs:read') }, async (request) =>
    renderExecution(await readExecution(context, callerOf(request), request.params.job_id)),
  );
}
