import { AppError, andMore } from '../../core/errors.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { type ReadRequest, readExecutionRequest } from '../../services/execution/execution-request.ts';
import { submitExecution } from '../../services/execution/submit-execution.ts';
import type { Http } from '../door.ts';
import { judgedByService, needs } from '../shared/route-options.ts';
import { answer, named } from '../shared/shapes.ts';
import { callerOf, creationHeadersOf } from './operation.ts';
import { problemResponses } from './schemas/problem.ts';
import { ExecutionAccepted, ExecutionSubmission } from './schemas/submission.ts';

const schema = {
  operationId: 'submitExecution',
  summary: 'Submit a job',
  description:
    'Accepts a job and generates its definition. The job is stored durably before the response is sent. A repeat with the same idempotency key and content returns the first job; the same key with other content is refused (409). A full queue refuses jobs that are due immediately (503).',
  body: named(ExecutionSubmission),
  response: { ...problemResponses(409), 202: answer(ExecutionAccepted, 'The job is accepted.') },
};

export function submitJobRoute(http: Http, context: ExecutionContext): void {
  http.post('/jobs', { schema, ...needs('jobs:write'), ...judgedByService }, async (request, reply) => {
    const receivedAtMs = Date.now();
    const { allowedTypes } = context.settings;
    const { addresses } = context.webhooks;
    const { idempotencyKey: headerKey } = creationHeadersOf(request);
    const read = readExecutionRequest(request.body, { headerKey, allowedTypes, addresses });
    if (!read.ok) throw refusal(read);
    const submitted = await submitExecution(context, callerOf(request), read.request, receivedAtMs);
    request.jobId = submitted.jobId;
    const { jobId, state, createdAt } = submitted;
    return reply.code(202).send({ job_id: jobId, state, created_at: formatTimestamp(createdAt) });
  });
}

const PROBLEMS_OF = { malformed: 'RFA_REQUEST_MALFORMED', invalid: 'RFA_JOB_VALIDATION_FAILED' } as const;

function refusal({ kind, issues }: Extract<ReadRequest, { ok: false }>): AppError {
  const message = `${issues[0]?.message ?? 'the request is not valid'}${andMore(issues)}`;
  return new AppError('INVALID_REQUEST', { message, details: issues, problem: PROBLEMS_OF[kind] });
}
