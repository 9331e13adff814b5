import type { FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import { traceparentOf } from '../../core/traceparent.ts';
import { actorOf, identityOf, type Scope } from '../shared/identity.ts';
import type { Asker } from './read-submission.ts';
import type { Sight } from './render.ts';

/** The caller as services and renderers need it. */
export function callerOf(request: FastifyRequest) {
  const identity = identityOf(request);
  const sight: Sight = { seesStack: identity.scopes.has('failures:read') };
  return { identity, orgId: identity.orgId, actor: actorOf(identity), sight };
}

export const askerOf = (request: FastifyRequest): Asker => ({
  identity: identityOf(request),
  traceparent: traceparentOf(request.headers.traceparent),
});

export const needs = (...scopes: Scope[]) => ({ config: { scopes } });

/** For requests whose members are all optional: no body is an empty one. */
export const bodyMayBeAbsent = {
  preValidation: async (request: FastifyRequest): Promise<void> => {
    request.body ??= {};
  },
};

/** For bodies that the service judges itself, member by member: the schema documents them, and a test holds it to that. */
export const judgedByService = { validatorCompiler: () => () => true };

export const noSuchJob = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `Job ${id.slice(0, 100)} does not exist.` });
