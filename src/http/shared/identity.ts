import type { FastifyRequest } from 'fastify';
import type { ApiKeyScope as Scope } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';

/** A route names the scopes it needs and refuses a key that lacks one. */
export type { ApiKeyScope as Scope } from '../../core/api-key.ts';

/** The caller: an org and the API key that it used. */
export type Identity = {
  readonly orgId: string;
  readonly keyId: string;
  readonly projectId: string | null;
  readonly scopes: ReadonlySet<Scope>;
  /** The caller got the key by registering at the execution API, so the key is for jobs of that API only. */
  readonly isSelfRegistered: boolean;
};

/** The caller in the form that the ledger records. */
export const actorOf = (identity: Identity): string => `api_key:${identity.keyId}`;

/** Authenticates a caller by the Authorization header. */
export type Authenticator = {
  /** Throws UNAUTHORIZED or FORBIDDEN. */
  authenticate(authorization: string | undefined): Promise<Identity>;
  /** Returns a cached identity without waiting. Null means that the caller has to use `authenticate`. */
  recall?(authorization: string | undefined): Identity | null;
  /** Discards the cached state of a key that has changed. */
  forget?(keyId: string): void;
};

const refusedOrgs = new WeakMap<AppError, string>();

/** Attaches the org of a refused key to the error. The log shows it; the response does not. */
export function refusedTo(orgId: string, error: AppError): AppError {
  refusedOrgs.set(error, orgId);
  return error;
}

/** The org whose key was refused, or null when the key does not exist. */
export const orgRefused = (error: AppError): string | null => refusedOrgs.get(error) ?? null;

/** The limiter's decision on one request. The response headers report it in either case. */
export type LimitVerdict = {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
};

/** Counts the requests of an org over all processes. It returns a promise only when it has to wait for the database. */
export type RateLimiter = { take(orgId: string): LimitVerdict | Promise<LimitVerdict> };

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity | null;
  }
  interface FastifyContextConfig {
    /** Scopes that the caller's key must have. A route without this member is open to everyone. */
    scopes?: readonly Scope[];
    /** Also admits callers without a key, who get no identity. A caller with a key still needs the scopes. */
    isOpenCall?: boolean;
    /** Refuses a key that is bound to a project, because the operation concerns all projects of the org. */
    isForWholeOrg?: boolean;
  }
}

/** The caller of a route that names scopes. Authentication guarantees that there is one. */
export function identityOf(request: FastifyRequest): Identity {
  if (request.identity === null) throw new AppError('UNAUTHORIZED');
  return request.identity;
}
