import type { ExecutionContext } from '../../services/execution/context.ts';
import { retryExecution } from '../../services/execution/retry-execution.ts';
import type { Http } from '../door.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf, JobParams, needs, problemResponses } from './operation.ts';
import { ExecutionRetried } from './schemas/change.ts';

const schema = {
  operationId: 'retryExecution',
  summary: 'Retry a job',
  description:
    'Queues a FAILED job for one more attempt, which starts after a pause that grows with each. A job in any other state stays as it is. A job that has had all its attempts stays FAILED (409).',
  params: JobParams,
  response: { ...problemResponses(404, 409), 200: answer(ExecutionRetried, 'The job as it is now.') },
};

export function retryJobRoute(http: Http, context: ExecutionContext): void {
  http.post('/jobs/:job_id/retry', { schema, ...needs('jobs:write') }, async (request) => {
    const { jobId, state, updatedAt, attempt } = await retryExecution(
      context,
      callerOf(request),
      request.params.job_id,
    );
    return { job_id: jobId, state, updated_at: updatedAt.toISOString(), attempt };
  });
}
