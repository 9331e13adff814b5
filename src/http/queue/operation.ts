import type { FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { actorOf, identityOf } from '../shared/identity.ts';
import { traceOf } from '../shared/request-spans.ts';
import type { Asker } from './read-submission.ts';
import type { Sight } from './render.ts';

export function callerOf(request: FastifyRequest) {
  const identity = identityOf(request);
  const sight: Sight = { seesStack: identity.scopes.has('failures:read') };
  const { orgId, projectId } = identity;
  return { identity, owner: { orgId, projectId }, actor: actorOf(identity), sight };
}

export const askerOf = (request: FastifyRequest): Asker => ({
  identity: identityOf(request),
  traceparent: traceOf(request),
});

/** Who asks for an action, for the audit trail. */
export const requesterOf = (request: FastifyRequest, reason?: string | null): Requester => ({
  actor: actorOf(identityOf(request)),
  requestId: request.id,
  correlationId: null,
  reason: reason ?? null,
});

export { bodyMayBeAbsent, judgedByService, needs, needsOrg } from '../shared/route-options.ts';

export const noSuchJob = (id: string): AppError => new AppError('NOT_FOUND', { message: `Job ${id.slice(0, 100)} does not exist.` });
