import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { cancelExecution, type ExecutionChange, retryExecution } from '../../services/execution/change-execution.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { reportExecution } from '../../services/execution/execution-reports.ts';
import { readExecution } from '../../services/execution/read-execution.ts';
import type { Http } from '../door.ts';
import { needs } from '../shared/route-options.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf, JobParams } from './operation.ts';
import { renderExecution, renderReport } from './render.ts';
import { ExecutionChange as ChangeShape, ExecutionRetried } from './schemas/change.ts';
import { ExecutionJob } from './schemas/job.ts';
import { problemResponses } from './schemas/problem.ts';
import { ExecutionReport } from './schemas/report.ts';

const jobOf = (request: FastifyRequest & { readonly params: Static<typeof JobParams> }) => ({
  caller: callerOf(request),
  jobId: request.params.job_id,
});

const getSchema = {
  operationId: 'getExecution',
  summary: 'Get a job',
  description: 'Returns the definition of a job, its state, and its outcome once it has one.',
  params: JobParams,
  response: { ...problemResponses(404), 200: answer(ExecutionJob, 'The job.') },
};

export function getJobRoute(http: Http, context: ExecutionContext): void {
  http.get('/jobs/:job_id', { schema: getSchema, ...needs('jobs:read') }, async (request) =>
    renderExecution(await readExecution(context, jobOf(request))),
  );
}

const reportSchema = {
  operationId: 'getExecutionReport',
  summary: 'Get the report of a job',
  description:
    'Returns the outcome of a job, its times and every change of its state. A job that has not ended, or that was retried and has not ended again, has no report (404).',
  params: JobParams,
  response: { ...problemResponses(404), 200: answer(ExecutionReport, 'The report.') },
};

export function getReportRoute(http: Http, context: ExecutionContext): void {
  http.get('/jobs/:job_id/report', { schema: reportSchema, ...needs('jobs:read') }, async (request) =>
    renderReport(await reportExecution(context, jobOf(request))),
  );
}

const cancelSchema = {
  operationId: 'cancelExecution',
  summary: 'Cancel a job',
  description:
    'Cancels a job that has not ended, immediately and for good. A running job is CANCELED before its handler is notified, and results of the handler are discarded. A job that has ended does not change.',
  params: JobParams,
  response: { ...problemResponses(404, 409), 200: answer(ChangeShape, 'The job as it is now.') },
};

export function cancelJobRoute(http: Http, context: ExecutionContext): void {
  http.post('/jobs/:job_id/cancel', { schema: cancelSchema, ...needs('jobs:cancel') }, async (request) =>
    renderChange(await cancelExecution(context, jobOf(request))),
  );
}

const retrySchema = {
  operationId: 'retryExecution',
  summary: 'Retry a job',
  description:
    'Queues a FAILED job for one more attempt, which starts after a delay that grows with each attempt. A job in any other state does not change. A job without attempts left stays FAILED (409).',
  params: JobParams,
  response: { ...problemResponses(404, 409), 200: answer(ExecutionRetried, 'The job as it is now.') },
};

export function retryJobRoute(http: Http, context: ExecutionContext): void {
  http.post('/jobs/:job_id/retry', { schema: retrySchema, ...needs('jobs:write') }, async (request) => {
    const retried = await retryExecution(context, jobOf(request));
    return { ...renderChange(retried), attempt: retried.attempt };
  });
}

const renderChange = ({ jobId, state, updatedAt }: ExecutionChange) => ({
  job_id: jobId,
  state,
  updated_at: updatedAt.toISOString(),
});
