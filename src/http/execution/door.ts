import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { SMALL_BODY_BYTES } from '../../core/body-sizes.ts';
import { AppError } from '../../core/errors.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Door, Http } from '../door.ts';
import type { Authenticator, LimitVerdict } from '../shared/identity.ts';
import { shapesIn } from '../shared/shapes.ts';
import { checkAccept } from './accept.ts';
import { createClientRoute, getClientRoute, issueKeyRoute, renewKeyRoute, revokeKeyRoute } from './client-routes.ts';
import { ExecutionHealth, getHealthRoute } from './get-health.ts';
import { cancelJobRoute, getJobRoute, getReportRoute, retryJobRoute } from './job-routes.ts';
import { listJobsRoute } from './list-jobs.ts';
import { listReportsRoute } from './list-reports.ts';
import { installMethods } from './methods.ts';
import { problemsOf, respondProblem } from './problem.ts';
import * as changeSchemas from './schemas/change.ts';
import * as clientSchemas from './schemas/client.ts';
import * as deliverySchemas from './schemas/delivery.ts';
import * as jobSchemas from './schemas/job.ts';
import * as listsSchemas from './schemas/lists.ts';
import * as problemSchemas from './schemas/problem.ts';
import * as reportSchemas from './schemas/report.ts';
import * as submissionSchemas from './schemas/submission.ts';
import * as webhookSchemas from './schemas/webhook.ts';
import * as messageSchemas from './schemas/webhook-message.ts';
import { WEBHOOK_CALLS } from './schemas/webhook-message.ts';
import { submitJobRoute } from './submit-job.ts';
import { WEBHOOK_ROUTES } from './webhook-routes.ts';

/** Authentication, and the limits that apply in addition to the rate limit of the org. */
export type ExecutionParts = {
  readonly authenticator: Authenticator;
  /** Counts requests without a key by the address of their sender. */
  readonly addressLimiter: { take(address: string): LimitVerdict };
  /** Counts the requests of a client in a day; null without a quota. */
  readonly quota: { take(clientId: string): Promise<LimitVerdict> } | null;
};

type ExecutionRoute = (http: Http, context: ExecutionContext, parts: ExecutionParts) => void;

const SHAPES = [
  ...shapesIn(problemSchemas, clientSchemas, submissionSchemas, jobSchemas, changeSchemas, reportSchemas, listsSchemas),
  ...shapesIn(webhookSchemas, deliverySchemas, messageSchemas),
  ExecutionHealth,
];

const ROUTES: readonly ExecutionRoute[] = [
  createClientRoute,
  issueKeyRoute,
  renewKeyRoute,
  revokeKeyRoute,
  getClientRoute,
  submitJobRoute,
  getJobRoute,
  getReportRoute,
  listJobsRoute,
  listReportsRoute,
  cancelJobRoute,
  retryJobRoute,
  ...WEBHOOK_ROUTES,
  getHealthRoute,
];

/** The execution API: clients, their keys, jobs and webhooks. */
export function executionDoor(context: ExecutionContext, parts: ExecutionParts): Door {
  return {
    prefix: '/v1',
    tag: 'execution',
    description: 'Simulated work: clients and their keys, jobs with an outcome and a report, and webhooks for their events.',
    isFinalOnly: true,
    webhooks: WEBHOOK_CALLS,
    register(http) {
      http.addHook('onRoute', (route) => {
        route.bodyLimit = Math.min(route.bodyLimit ?? SMALL_BODY_BYTES, context.settings.bodyBytes);
      });
      installMethods(http);
      installAdmittance(http, parts);
      for (const shape of SHAPES) http.addSchema(shape);
      for (const register of ROUTES) register(http, context, parts);
    },
    render: (error, requestId) => ({ code: error.code, message: error.message, request_id: requestId }),
    respond: respondProblem,
    errorResponses: problemsOf,
  };
}

/**
 * Checks every request before its body is read and after its key and the rate limit of its org. This is a hook of each route
 * without a promise, where none is needed: an asynchronous hook of the door took 3 us per request.
 */
function installAdmittance(http: Http, parts: ExecutionParts): void {
  http.addHook('onRoute', (route) => {
    const { isOpenCall = false, offers = [] } = route.config ?? {};
    route.onRequest = [route.onRequest ?? [], admittanceOf(parts, { isOpenCall, offers })].flat();
  });
}

function admittanceOf(
  { addressLimiter, quota }: ExecutionParts,
  { isOpenCall, offers }: { isOpenCall: boolean; offers: readonly string[] },
): onRequestHookHandler {
  const admit = (request: FastifyRequest): void | Promise<void> => {
    checkAccept(request, offers);
    const { headers, identity } = request;
    // An empty body has no type, whatever the header claims.
    if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') {
      delete headers['content-type'];
    }
    if (identity !== null) {
      return quota?.take(identity.orgId).then((verdict) => demand(verdict, 'quota', 'requests per day'));
    }
    if (isOpenCall) {
      demand(addressLimiter.take(request.ip), 'open_calls_per_minute', 'requests without a key per minute from one address');
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
