import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { traceparentOf } from '../../core/traceparent.ts';
import type { Caller } from '../../services/execution/context.ts';

export { problemResponses } from './schemas/problem.ts';

import { actorOf, identityOf, type Scope } from '../shared/identity.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The job that the request is about, for the log; null when there is none. */
    jobId: string | null;
  }
}

/** The caller as services need it. Only for routes that name scopes. */
export function callerOf(request: FastifyRequest): Caller {
  const identity = identityOf(request);
  const traceparent = traceparentOf(request.headers.traceparent);
  return {
    clientId: identity.orgId,
    keyId: identity.keyId,
    actor: actorOf(identity),
    requestId: request.id,
    ...(traceparent === null ? {} : { traceparent }),
  };
}

export const needs = (...scopes: Scope[]) => ({ config: { scopes } });

/** For requests whose members are all optional: no body is an empty one. */
export const bodyMayBeAbsent = {
  preValidation: async (request: FastifyRequest): Promise<void> => {
    request.body ??= {};
  },
};

/** For bodies that a service judges itself, member by member: the schema documents them. */
export const judgedByService = { validatorCompiler: () => () => true };

export const JobParams = Type.Object({
  job_id: Type.String({ description: 'The id of the job.', examples: ['3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11'] }),
});

export const ClientParams = Type.Object({
  client_id: Type.String({ description: 'The id of the client.', examples: ['7b1a4e0e-2f4a-4a0b-9a83-0d6f2c1e5b77'] }),
});
