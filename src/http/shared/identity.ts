import type { FastifyRequest } from 'fastify';
import type { ApiKeyScope as Scope } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';

/** A route names the scopes it needs; a key without one of them is refused. */
export type { ApiKeyScope as Scope } from '../../core/api-key.ts';

/** Who calls: always one org, through one of its keys. */
export type Identity = {
  readonly orgId: string;
  readonly keyId: string;
  readonly projectId: string | null;
  readonly scopes: ReadonlySet<Scope>;
};

/** The actor as the ledger writes it. */
export const actorOf = (identity: Identity): string => `api_key:${identity.keyId}`;

/** Proves who calls from the Authorization header; throws UNAUTHORIZED or FORBIDDEN. */
export type Authenticator = {
  authenticate(authorization: string | undefined): Promise<Identity>;
  /** The same when it can be said at once: null means that `authenticate` must be asked. */
  recall?(authorization: string | undefined): Identity | null;
  /** A key was changed: what is remembered of it is no longer true. */
  forget?(keyId: string): void;
};

const refusedOrgs = new WeakMap<AppError, string>();

/** Notes whose key was refused: no caller is told, but a log should say it. */
export function refusedTo(orgId: string, error: AppError): AppError {
  refusedOrgs.set(error, orgId);
  return error;
}

/** The org whose key was refused; null when there is no such key. */
export const orgRefused = (error: AppError): string | null => refusedOrgs.get(error) ?? null;

/** What the limiter says of one request; headers are set from it whether or not it is allowed. */
export type LimitVerdict = {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
};

/** Counts requests of an org over all processes. Never waits for the database on the request's path. */
export type RateLimiter = { take(orgId: string): LimitVerdict | Promise<LimitVerdict> };

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity | null;
  }
  interface FastifyContextConfig {
    /** Scopes the caller's key must have. A route without this member is open to everybody. */
    scopes?: readonly Scope[];
    /** Callers who show no key at all are let in too, without an identity; those who show one are held to its scopes. */
    isOpenCall?: boolean;
  }
}

/** The caller of a route that names scopes; such a route is never reached without one. */
export function identityOf(request: FastifyRequest): Identity {
  if (request.identity === null) throw new AppError('UNAUTHORIZED');
  return request.identity;
}
