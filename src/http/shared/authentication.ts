import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Http } from '../door.ts';
import { type Authenticator, type Identity, type LimitVerdict, type RateLimiter, refusedTo, type Scope } from './identity.ts';
import { RATE_WINDOW_SECONDS } from './rate-limiter.ts';

const LIMIT_NAME = 'requests_per_minute';

type Guards = { authenticator: Authenticator; limiter: RateLimiter };
type Gate = { scopes: readonly Scope[]; isOpenCall: boolean; isForWholeOrg: boolean };

/**
 * A route that names scopes requires a key with all of them and counts against the rate limit of the org. Every other route is
 * open and gets no identity. An open call without a key gets none either.
 */
export function installAuthentication(http: Http, guards: Guards): void {
  http.decorateRequest('identity', null);
  // A stream stays open after its first check, so it authenticates again from time to time.
  if (!http.hasDecorator('authenticator')) http.decorate('authenticator', guards.authenticator);
  http.addHook('onRoute', (route) => {
    const { scopes, isOpenCall = false, isForWholeOrg = false } = route.config ?? {};
    if (scopes === undefined) return;
    route.onRequest = [gateOf(guards, { scopes, isOpenCall, isForWholeOrg }), ...[route.onRequest ?? []].flat()];
  });
}

/** Admits most requests synchronously. A request waits only when its key or its limit must be read from the ledger. */
function gateOf({ authenticator, limiter }: Guards, { scopes, isOpenCall, isForWholeOrg }: Gate): onRequestHookHandler {
  const admit = (identity: Identity, request: FastifyRequest, reply: FastifyReply): void | Promise<void> => {
    requireScopes(identity, scopes);
    if (isForWholeOrg) requireWholeOrg(identity);
    const verdict = limiter.take(identity.orgId);
    const pass = (judged: LimitVerdict) => {
      setLimitHeaders(reply, judged);
      if (!judged.allowed) throw overLimit(judged);
      request.identity = identity;
    };
    return verdict instanceof Promise ? verdict.then(pass) : pass(verdict);
  };
  return (request, reply, done) => {
    const { authorization } = request.headers;
    if (isOpenCall && authorization === undefined) return done();
    const refuse = (error: Error) => done(withChallenge(error, reply));
    try {
      const known = authenticator.recall?.(authorization) ?? null;
      const crowded = known === null ? request.inFlight?.awaitKey() : undefined;
      if (crowded !== undefined) return done(crowded);
      const admitted =
        known === null
          ? authenticator.authenticate(authorization).then((identity) => admit(identity, request, reply))
          : admit(known, request, reply);
      if (admitted instanceof Promise) admitted.then(() => done(), refuse);
      else done();
    } catch (error) {
      refuse(error as Error);
    }
  };
}

/** Adds the WWW-Authenticate header to a 401 response. */
function withChallenge(error: Error, reply: FastifyReply): Error {
  if (error instanceof AppError && error.code === 'UNAUTHORIZED') reply.header('www-authenticate', 'Bearer realm="millrace"');
  return error;
}

function requireScopes(identity: Identity, scopes: readonly Scope[]): void {
  const missing = scopes.filter((scope) => !identity.scopes.has(scope));
  if (missing.length === 0) return;
  const message = `The API key lacks the scope ${missing.join(', ')}. Use a key that has it.`;
  const details = [{ field: 'authorization', code: 'MISSING_SCOPE', message }];
  throw refusedTo(identity.orgId, new AppError('FORBIDDEN', { message, details }));
}

function requireWholeOrg({ orgId, projectId }: Identity): void {
  if (projectId === null) return;
  const message = 'The API key is bound to a project, and this operation concerns all projects of the org. Use a key without a project.';
  const details = [{ field: 'authorization', code: 'PROJECT_KEY', message }];
  throw refusedTo(orgId, new AppError('FORBIDDEN', { message, details }));
}

const secondsUp = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));

let policyLimit = Number.NaN;
let policyText = '';

function policyOf(limit: number): string {
  if (limit !== policyLimit) {
    policyText = `"${LIMIT_NAME}";q=${limit};w=${RATE_WINDOW_SECONDS}`;
    policyLimit = limit;
  }
  return policyText;
}

/** Sets the headers of draft-ietf-httpapi-ratelimit-headers. */
function setLimitHeaders(reply: FastifyReply, { allowed, limit, remaining, resetMs }: LimitVerdict): void {
  reply.header('ratelimit-policy', policyOf(limit));
  reply.header('ratelimit', `"${LIMIT_NAME}";r=${remaining};t=${secondsUp(resetMs)}`);
  if (!allowed) reply.header('retry-after', secondsUp(resetMs));
}

function overLimit({ limit, remaining, resetMs }: LimitVerdict): AppError {
  return new AppError('QUOTA_EXCEEDED', {
    message: `The org has used its ${limit} requests of this minute. Retry after the time in the Retry-After header.`,
    quota: { limit: LIMIT_NAME, current: limit - remaining, maximum: limit, retryAfterMs: secondsUp(resetMs) * 1_000 },
  });
}
