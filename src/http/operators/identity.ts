import { hash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { AppError, isAppError } from '../../core/errors.ts';
import { OPERATOR } from '../../core/governance/actor.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { findOrgByName } from '../../services/access/list-orgs.ts';
import type { IngestContext } from '../../services/ingest/context.ts';
import { type Authenticator, actorOf, type Scope } from '../shared/identity.ts';

/** An operator: with the token of every org, with a key of its own. */
export type Operator = {
  /** Null: every org. */
  readonly orgId: string | null;
  readonly actor: string;
  /** What the key may do; null: everything. */
  readonly scopes: ReadonlySet<Scope> | null;
};

declare module 'fastify' {
  interface FastifyRequest {
    operator: Operator | null;
  }
}

export type OperatorAccess = {
  readonly authenticator: Authenticator;
  /** Null: everyone who reaches the server is an operator. */
  readonly token: string | null;
};

const EVERYONE: Operator = { orgId: null, actor: OPERATOR, scopes: null };

/** Accepts the operator token, or an API key with the scope `operator`, which sees its own org only. */
export async function identifyOperator(
  { authenticator, token }: OperatorAccess,
  { headers: { authorization } }: FastifyRequest,
): Promise<Operator> {
  if (token === null) return EVERYONE;
  const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (given !== undefined && isSame(given, token)) return EVERYONE;
  try {
    const identity = authenticator.recall?.(authorization) ?? (await authenticator.authenticate(authorization));
    const { scopes, projectId, orgId } = identity;
    if (scopes.has('operator') && projectId === null) return { orgId, actor: actorOf(identity), scopes };
  } catch (error) {
    if (!isAppError(error, 'UNAUTHORIZED')) throw error;
    throw new AppError('UNAUTHORIZED', {
      message:
        'Send the operator token as Authorization: Bearer <token>, or an API key with the scope operator. The token is in the file operator-token of the data folder.',
    });
  }
  throw new AppError('FORBIDDEN', {
    message: 'The API key lacks the scope operator. Use a key of the whole org that has it, or the operator token.',
  });
}

/** Compares in constant time, whatever the lengths are. */
const isSame = (given: string, token: string): boolean => timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', token, 'buffer'));

export function operatorOf({ operator }: FastifyRequest): Operator {
  if (operator === null) throw new AppError('UNAUTHORIZED');
  return operator;
}

/** Refuses the key of an org where the operation concerns all orgs. `what`: the things that it concerns, as the start of a sentence. */
export function requireEveryOrg(request: FastifyRequest, what: string): Operator {
  const operator = operatorOf(request);
  if (operator.orgId === null) return operator;
  throw new AppError('FORBIDDEN', { message: `${what} serve all orgs. Use the operator token.` });
}

/** Who asks for an action, for the audit trail. */
export const operatorAsking = (request: FastifyRequest, reason?: string): Requester => ({
  actor: operatorOf(request).actor,
  requestId: request.id,
  correlationId: null,
  reason: reason ?? null,
});

/** The org that a request concerns: the one of the key, or the one that the operator names. Null: every org. */
export async function orgOf({ engine }: IngestContext, { orgId }: Operator, named: string | undefined): Promise<string | null> {
  if (named === undefined) return orgId;
  const org = await findOrgByName(engine.database, named);
  if (orgId === null || orgId === org.id) return org.id;
  throw new AppError('NOT_FOUND', { message: `There is no org "${named.slice(0, 100)}".` });
}
