import type { FastifyReply, FastifyRequest, onResponseHookHandler } from 'fastify';
import { isAppError } from '../../core/errors.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Http } from '../door.ts';
import { orgRefused } from '../shared/identity.ts';

/** Logs and measures each request, and counts the requests that were refused for their credentials. */
export function installRequestLog(http: Http, { telemetry, metrics }: ExecutionContext): void {
  const record = (route: string, request: FastifyRequest, reply: FastifyReply): void => {
    metrics.request(route, request.method, reply.statusCode, reply.elapsedTime / 1_000);
    telemetry.log[levelOf(request, reply)]('request', () => fieldsOf(request, reply));
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
    const clientId = request.identity?.orgId ?? orgRefused(error);
    metrics.authFailed(clientId, error.details[0]?.code ?? error.code, request.id);
  });
}

function levelOf(request: FastifyRequest, { statusCode }: FastifyReply): 'info' | 'warn' | 'error' {
  if (statusCode === 500 || isWriteInDoubt(request)) return 'error';
  return statusCode > 500 ? 'warn' : 'info';
}

function fieldsOf(request: FastifyRequest, reply: FastifyReply) {
  const jobId = request.jobId ?? (request.params as { job_id?: string } | undefined)?.job_id;
  const clientId = request.identity?.orgId;
  const { problem } = request;
  return {
    request_id: request.id,
    action: actionOf(request),
    ...(clientId === undefined ? {} : { client_id: clientId }),
    ...(typeof jobId === 'string' ? { job_id: jobId.slice(0, 100) } : {}),
    ...(problem == null ? {} : { error_code: problem.code, error_message: problem.message }),
    ...(isWriteInDoubt(request) ? { recovery_needed: true } : {}),
    method: request.method,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime * 10) / 10,
  };
}

/** Whether the database failed during a write. The write is complete or absent, and only a repeat of the request shows which. */
const isWriteInDoubt = ({ method, problem }: FastifyRequest): boolean =>
  method !== 'GET' && method !== 'HEAD' && problem?.code.startsWith('RFA_STORAGE_') === true;

const VERBS = /^(?:submit|cancel|retry|get|list|create|issue|renew|revoke|register|change|delete|rotate|test|redeliver)/;

/** The action of the request in one word: submit, cancel, retry, get, report and so on. */
function actionOf({ routeOptions, method }: FastifyRequest): string {
  const { operationId = '' } = (routeOptions.schema ?? {}) as { operationId?: string };
  if (operationId.endsWith('Report') || operationId.endsWith('Reports')) return 'report';
  return VERBS.exec(operationId)?.[0] ?? method.toLowerCase();
}
