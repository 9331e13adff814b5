import type { FastifyReply } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Http } from '../door.ts';
import {
  type Authenticator,
  type Identity,
  type LimitVerdict,
  type RateLimiter,
  refusedTo,
  type Scope,
} from './identity.ts';
import { RATE_WINDOW_SECONDS } from './rate-limiter.ts';

const LIMIT_NAME = 'requests_per_minute';

/**
 * Routes that name scopes are for callers whose key has them all, within the rate of their org. Every other route is open and
 * sees no identity, as are open calls that show no key.
 */
export function installAuthentication(
  http: Http,
  { authenticator, limiter }: { authenticator: Authenticator; limiter: RateLimiter },
): void {
  http.decorateRequest('identity', null);
  // Streams outlive the check at their start and ask again while they are open.
  if (!http.hasDecorator('authenticator')) http.decorate('authenticator', authenticator);
  http.addHook('onRequest', async (request, reply) => {
    const { scopes, isOpenCall } = request.routeOptions.config ?? {};
    const { authorization } = request.headers;
    if (scopes === undefined || (isOpenCall === true && authorization === undefined)) return;
    const identity = await identify(authenticator, authorization, reply);
    requireScopes(identity, scopes);
    const verdict = await limiter.take(identity.orgId);
    sayLimit(reply, verdict);
    if (!verdict.allowed) throw overLimit(verdict);
    request.identity = identity;
  });
}

async function identify(
  authenticator: Authenticator,
  authorization: string | undefined,
  reply: FastifyReply,
): Promise<Identity> {
  try {
    return await authenticator.authenticate(authorization);
  } catch (error) {
    if (error instanceof AppError && error.code === 'UNAUTHORIZED')
      reply.header('www-authenticate', 'Bearer realm="millrace"');
    throw error;
  }
}

function requireScopes(identity: Identity, scopes: readonly Scope[]): void {
  const missing = scopes.filter((scope) => !identity.scopes.has(scope));
  if (missing.length === 0) return;
  const message = `The API key lacks the scope ${missing.join(', ')}.`;
  const details = [{ field: 'authorization', code: 'MISSING_SCOPE', message }];
  throw refusedTo(identity.orgId, new AppError('FORBIDDEN', { message, details }));
}

const secondsUp = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));

/** The fields of draft-ietf-httpapi-ratelimit-headers. */
function sayLimit(reply: FastifyReply, { allowed, limit, remaining, resetMs }: LimitVerdict): void {
  reply.header('ratelimit-policy', `"${LIMIT_NAME}";q=${limit};w=${RATE_WINDOW_SECONDS}`);
  reply.header('ratelimit', `"${LIMIT_NAME}";r=${remaining};t=${secondsUp(resetMs)}`);
  if (!allowed) reply.header('retry-after', secondsUp(resetMs));
}

function overLimit({ limit, remaining, resetMs }: LimitVerdict): AppError {
  return new AppError('QUOTA_EXCEEDED', {
    message: `The org may send ${limit} requests a minute.`,
    quota: { limit: LIMIT_NAME, current: limit - remaining, maximum: limit, retryAfterMs: secondsUp(resetMs) * 1_000 },
  });
}
