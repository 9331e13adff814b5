import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Door, Http } from '../door.ts';
import type { Authenticator, LimitVerdict } from '../shared/identity.ts';
import { checkAccept } from './accept.ts';
import { cancelJobRoute } from './cancel-job.ts';
import { createClientRoute } from './create-client.ts';
import { getClientRoute } from './get-client.ts';
import { getHealthRoute } from './get-health.ts';
import { getJobRoute } from './get-job.ts';
import { getReportRoute } from './get-report.ts';
import { issueKeyRoute } from './issue-key.ts';
import { listJobsRoute } from './list-jobs.ts';
import { listReportsRoute } from './list-reports.ts';
import { installMethods } from './methods.ts';
import { problemsOf, respondProblem } from './problem.ts';
import { installRefusalLog } from './refusal-log.ts';
import { renewKeyRoute } from './renew-key.ts';
import { installRequestLog } from './request-log.ts';
import { retryJobRoute } from './retry-job.ts';
import { revokeKeyRoute } from './revoke-key.ts';
import { CHANGE_SHAPES } from './schemas/change.ts';
import { CLIENT_SHAPES } from './schemas/client.ts';
import { DELIVERY_SHAPES } from './schemas/delivery.ts';
import { ExecutionHealth } from './schemas/health.ts';
import { JOB_SHAPES } from './schemas/job.ts';
import { LIST_SHAPES } from './schemas/lists.ts';
import { PROBLEM_SHAPES } from './schemas/problem.ts';
import { REPORT_SHAPES } from './schemas/report.ts';
import { SUBMISSION_SHAPES } from './schemas/submission.ts';
import { WEBHOOK_SHAPES } from './schemas/webhook.ts';
import { WEBHOOK_CALLS, WEBHOOK_MESSAGE_SHAPES } from './schemas/webhook-message.ts';
import { submitJobRoute } from './submit-job.ts';
import { WEBHOOK_OPERATIONS } from './webhooks/operations.ts';

/** Who may call, and how often, beside the rate of the org. */
export type ExecutionParts = {
  readonly authenticator: Authenticator;
  /** Counts calls without a credential by the address they come from. */
  readonly addressLimiter: { take(address: string): LimitVerdict };
  /** Counts the requests of a client in a day; null where there is no quota. */
  readonly quota: { take(clientId: string): Promise<LimitVerdict> } | null;
};

type ExecutionRoute = (http: Http, context: ExecutionContext, parts: ExecutionParts) => void;

const SHAPES = [
  ...[PROBLEM_SHAPES, CLIENT_SHAPES, SUBMISSION_SHAPES, JOB_SHAPES, CHANGE_SHAPES, REPORT_SHAPES, LIST_SHAPES].flat(),
  ...[WEBHOOK_SHAPES, DELIVERY_SHAPES, WEBHOOK_MESSAGE_SHAPES].flat(),
  ExecutionHealth,
];

const OPERATIONS: readonly ExecutionRoute[] = [
  ...[createClientRoute, issueKeyRoute, renewKeyRoute, revokeKeyRoute, getClientRoute],
  ...[submitJobRoute, getJobRoute, getReportRoute, listJobsRoute, listReportsRoute, cancelJobRoute, retryJobRoute],
  ...WEBHOOK_OPERATIONS,
  getHealthRoute,
];

/** Clients, their keys, their jobs (submit, cancel, retry, read, report) and their webhooks. */
export function executionDoor(context: ExecutionContext, parts: ExecutionParts): Door {
  return {
    prefix: '/v1',
    tag: 'execution',
    description:
      'Simulated work: clients, keys, jobs with an outcome and a report for each of them, and webhooks that tell of them.',
    isFinalOnly: true,
    webhooks: WEBHOOK_CALLS,
    register(http) {
      http.decorateRequest('jobId', null);
      http.decorateRequest('problem', null);
      http.addHook('onRoute', (route) => {
        route.bodyLimit ??= context.settings.bodyBytes;
      });
      installMethods(http);
      installAdmittance(http, parts);
      installRequestLog(http, context);
      installRefusalLog(http, context);
      for (const shape of SHAPES) http.addSchema(shape);
      for (const register of OPERATIONS) register(http, context, parts);
    },
    render: (error, requestId) => ({ code: error.code, message: error.message, request_id: requestId }),
    respond: respondProblem,
    errorResponses: problemsOf,
  };
}

/**
 * What is checked of every request before its body is read; the key and the rate of the org are known by then. A hook of the route
 * itself, without a promise where nothing has to be asked for: as an asynchronous hook of the door it took 3 us a request.
 */
function installAdmittance(http: Http, parts: ExecutionParts): void {
  http.addHook('onRoute', (route) => {
    const { isOpenCall = false, offers = [] } = route.config ?? {};
    route.onRequest = [route.onRequest ?? [], admittanceOf(parts, { isOpenCall, offers })].flat();
  });
}

type Admitted = { isOpenCall: boolean; offers: readonly string[] };

function admittanceOf(
  { addressLimiter, quota }: ExecutionParts,
  { isOpenCall, offers }: Admitted,
): onRequestHookHandler {
  const admit = (request: FastifyRequest): void | Promise<void> => {
    checkAccept(request, offers);
    const { headers, identity } = request;
    // Without bytes there is nothing to be of a type, whatever a client says of it.
    if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') {
      delete headers['content-type'];
    }
    if (identity !== null) {
      return quota?.take(identity.orgId).then((verdict) => demand(verdict, 'quota', 'requests a day'));
    }
    // Whoever proved no identity is counted by address, whatever else the request carries.
    if (isOpenCall) {
      demand(addressLimiter.take(request.ip), 'open_calls_per_minute', 'open calls a minute from one address');
    }
  };
  return (request, _reply, done) => {
    try {
      const admitted = admit(request);
      if (admitted === undefined) done();
      else admitted.then(() => done(), done);
    } catch (error) {
      done(error as Error);
    }
  };
}

function demand({ allowed, limit, remaining, resetMs }: LimitVerdict, name: string, what: string): void {
  if (allowed) return;
  const message = `The limit of ${limit} ${what} is reached.`;
  const retryAfterMs = Math.max(1_000, Math.ceil(resetMs / 1_000) * 1_000);
  throw new AppError('QUOTA_EXCEEDED', {
    message,
    details: [{ field: name, code: 'QUOTA_EXCEEDED', message }],
    quota: { limit: name, current: limit - remaining, maximum: limit, retryAfterMs },
  });
}
