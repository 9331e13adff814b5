import type { ExecutionContext } from '../../services/execution/context.ts';
import { reportExecution } from '../../services/execution/report-execution.ts';
import type { Http } from '../door.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf, JobParams, needs, problemResponses } from './operation.ts';
import { renderReport } from './render.ts';
import { ExecutionReport } from './schemas/report.ts';

const schema = {
  operationId: 'getExecutionReport',
  summary: 'Get the report of a job',
  description:
    'The outcome of a job, its times and every change of its state. There is none (404) until the job has ended, nor between a retry and its end.',
  params: JobParams,
  response: { ...problemResponses(404), 200: answer(ExecutionReport, 'The report.') },
};

export function getReportRoute(http: Http, context: ExecutionContext): void {
  http.get('/jobs/:job_id/report', { schema, ...needs('jobs:read') }, async (request) =>
    renderReport(await reportExecution(context, callerOf(request), request.params.job_id)),
  );
}
