import { cancelExecution } from '../../services/execution/cancel-execution.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Http } from '../door.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf, JobParams, needs, problemResponses } from './operation.ts';
import { ExecutionChange } from './schemas/change.ts';

const schema = {
  operationId: 'cancelExecution',
  summary: 'Cancel a job',
  description:
    'Stops a job that has not ended, at once and for good. A running one is CANCELED before its handler hears of it, and whatever that still does is void. A job that has ended stays as it is.',
  params: JobParams,
  response: { ...problemResponses(404, 409), 200: answer(ExecutionChange, 'The job as it is now.') },
};

export function cancelJobRoute(http: Http, context: ExecutionContext): void {
  http.post('/jobs/:job_id/cancel', { schema, ...needs('jobs:cancel') }, async (request) => {
    const { jobId, state, updatedAt } = await cancelExecution(context, callerOf(request), request.params.job_id);
    return { job_id: jobId, state, updated_at: updatedAt.toISOString() };
  });
}
