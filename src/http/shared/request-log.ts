import type { FastifyReply, FastifyRequest, onResponseHookHandler } from 'fastify';
import { isAppError } from '../../core/errors.ts';
import type { LogLevel } from '../../telemetry/log.ts';
import { ProcessMetrics } from '../../telemetry/process-metrics.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import type { Http } from '../door.ts';
import { orgRefused } from './identity.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The job of the request, for the log; null if there is none, or the route names it. */
    jobId: string | null;
    /** Its org, for the log, if the request has no key. */
    orgId: string | null;
    /** The error of the response, for the log; null for a success. */
    problem: { readonly code: string; readonly message: string } | null;
  }
}

/** The door whose lines name the org as its client. */
const EXECUTION = '/v1';

/** Logs and measures each request of every door, and counts the requests that were refused for their credentials. */
export function installRequestLog(http: Http, telemetry: Telemetry): void {
  const metrics = new ProcessMetrics(telemetry.metrics);
  const record = (route: string, request: FastifyRequest, reply: FastifyReply): void => {
    metrics.request(route, request.method, reply.statusCode, reply.elapsedTime / 1_000);
    telemetry.log[levelOf(request, reply)]('request', () => fieldsOf(route, request, reply));
  };
  http.addHook('onRoute', (route) => {
    const observe: onResponseHookHandler = (request, reply, done) => {
      record(route.url, request, reply);
      done();
    };
    route.onResponse = [route.onResponse ?? [], observe].flat();
  });
  http.addHook('onResponse', (request, reply, done) => {
    if (request.is404) record('none', request, reply);
    done();
  });
  http.addHook('onError', async (request, _reply, error) => {
    if (!isAppError(error, 'UNAUTHORIZED') && !isAppError(error, 'FORBIDDEN')) return;
    const orgId = request.identity?.orgId ?? orgRefused(error) ?? undefined;
    const reason = error.details[0]?.code ?? error.code;
    metrics.authFailed(reason);
    const org = isExecution(request) ? { client_id: orgId, org_id: orgId } : { org_id: orgId };
    telemetry.log.warn('auth failed', { request_id: request.id, ...org, action: actionOf(request), reason });
  });
}

const isExecution = ({ url }: FastifyRequest): boolean => url.startsWith(EXECUTION) && /^(?:[/?]|$)/.test(url.slice(EXECUTION.length));

function levelOf(request: FastifyRequest, { statusCode }: FastifyReply): LogLevel {
  if (statusCode === 500 || isWriteInDoubt(request)) return 'error';
  if (statusCode > 500) return 'warn';
  return request.routeOptions.config.isProbe === true ? 'debug' : 'info';
}

function fieldsOf(route: string, request: FastifyRequest, reply: FastifyReply) {
  const params = request.params as { job_id?: unknown; id?: unknown } | undefined;
  const jobId = request.jobId ?? params?.job_id ?? (route.includes('/jobs/:id') ? params?.id : undefined);
  const orgId = request.identity?.orgId ?? request.operator?.orgId ?? request.orgId ?? undefined;
  const { problem } = request;
  return {
    request_id: request.id,
    action: actionOf(request),
    org_id: orgId,
    project_id: request.identity?.projectId ?? undefined,
    client_id: isExecution(request) ? orgId : undefined,
    job_id: typeof jobId === 'string' ? jobId.slice(0, 100) : undefined,
    error_code: problem?.code,
    error_message: problem?.message,
    recovery_needed: isWriteInDoubt(request) ? true : undefined,
    method: request.method,
    route,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime * 10) / 10,
  };
}

/** Whether the database failed during a write. The write is complete or absent, and only a repeat of the request shows which. */
const isWriteInDoubt = ({ method, problem }: FastifyRequest): boolean =>
  method !== 'GET' && method !== 'HEAD' && problem?.code.startsWith('RFA_STORAGE_') === true;

const VERBS =
  /^(?:submit|cancel|retry|get|list|create|issue|renew|revoke|register|change|update|delete|rotate|test|redeliver|pause|resume|search)/;

/** The action of the request in one word: submit, cancel, retry, get, report and so on. */
function actionOf({ routeOptions, method }: FastifyRequest): string {
  const { operationId = '' } = (routeOptions.schema ?? {}) as { operationId?: string };
  if (operationId.endsWith('Report') || operationId.endsWith('Reports')) return 'report';
  return VERBS.exec(operationId)?.[0] ?? method.toLowerCase();
}
