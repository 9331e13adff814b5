import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Caller } from '../../services/execution/context.ts';
import { actorOf, identityOf } from '../shared/identity.ts';
import { traceOf } from '../shared/request-spans.ts';
import { BOOTSTRAP_TOKEN, IDEMPOTENCY_KEY } from './schemas/client.ts';

/** The caller of a route that requires scopes. */
export function callerOf(request: FastifyRequest): Caller {
  const identity = identityOf(request);
  const traceparent = traceOf(request);
  return {
    clientId: identity.orgId,
    projectId: identity.projectId,
    keyId: identity.keyId,
    actor: actorOf(identity),
    requestId: request.id,
    ...(traceparent === null ? {} : { traceparent }),
  };
}

/** The headers of a request that creates something. An empty header counts as absent. */
export function creationHeadersOf({ headers }: Pick<FastifyRequest, 'headers'>): {
  idempotencyKey?: string;
  bootstrapToken?: string;
} {
  return { idempotencyKey: textOf(headers[IDEMPOTENCY_KEY]), bootstrapToken: textOf(headers[BOOTSTRAP_TOKEN]) };
}

const textOf = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

export const JobParams = Type.Object({
  job_id: Type.String({ description: 'The id of the job.', examples: ['3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11'] }),
});
