import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type ApiKeyScope, parseApiKey } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import { issueKey, type KeyGrant, renewKey, revokeKeyOfClient } from '../../services/execution/client-keys.ts';
import { type ClientView, createClient, readClient } from '../../services/execution/clients.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Http } from '../door.ts';
import type { Authenticator } from '../shared/identity.ts';
import { bodyMayBeAbsent, needs } from '../shared/route-options.ts';
import { answer, named } from '../shared/shapes.ts';
import { callerOf, creationHeadersOf } from './operation.ts';
import {
  ExecutionClient,
  ExecutionClientDetails,
  ExecutionKey,
  ExecutionKeyRequest,
  ExecutionNothing,
  ExecutionRevocation,
  ExecutionRevocationRequest,
  OpenCallHeaders,
} from './schemas/client.ts';
import { problemResponses } from './schemas/problem.ts';

type Parts = { readonly authenticator: Authenticator };

const ClientParams = Type.Object({
  client_id: Type.String({ description: 'The id of the client.', examples: ['7b1a4e0e-2f4a-4a0b-9a83-0d6f2c1e5b77'] }),
});

const createSchema = {
  operationId: 'createClient',
  summary: 'Create a client',
  description:
    'Requires no key, only the bootstrap token if the server is configured with one. A repeat with the same Idempotency-Key from the same address returns the same client.',
  headers: OpenCallHeaders,
  body: named(ExecutionNothing),
  response: { ...problemResponses(401), 201: answer(ExecutionClient, 'The client. Issue its first key next.') },
};

export function createClientRoute(http: Http, context: ExecutionContext): void {
  const options = { schema: createSchema, config: { isOpenCall: true }, ...bodyMayBeAbsent };
  http.post('/clients', options, async (request, reply) => {
    const { clientId } = await createClient(context, { address: request.ip, ...creationHeadersOf(request) });
    return reply.code(201).send({ client_id: clientId });
  });
}

const issueSchema = {
  operationId: 'issueKey',
  summary: 'Issue a key',
  description:
    'The first key of a client is issued without a key. Later requests need a key of the client. They show that key again without its secret, or revoke it and issue a new one with rotate.',
  params: ClientParams,
  headers: OpenCallHeaders,
  body: named(ExecutionKeyRequest),
  response: {
    ...problemResponses(409),
    200: answer(ExecutionKey, 'The key was issued before. Its secret cannot be shown again.'),
    201: answer(ExecutionKey, 'A new key. Its secret is shown only here.'),
  },
};

export function issueKeyRoute(http: Http, context: ExecutionContext, { authenticator }: Parts): void {
  // A request without a key is allowed: the service issues the first key of the client, or refuses.
  const config = { scopes: ['jobs:write'], isOpenCall: true } as const;
  const options = { schema: issueSchema, config, ...bodyMayBeAbsent };
  http.post('/clients/:client_id/keys', options, async (request, reply) => {
    const caller = request.identity === null ? null : callerOf(request);
    const { rotate = false } = request.body;
    const clientId = request.params.client_id;
    const issued = await issueKey(context, { clientId, caller, rotate, ...creationHeadersOf(request) });
    if (caller !== null && issued.isNew) authenticator.forget?.(caller.keyId);
    return reply.code(issued.isNew ? 201 : 200).send(renderKey(issued));
  });
}

const renewSchema = {
  operationId: 'renewKey',
  summary: 'Renew a key',
  description:
    "Gives the caller's key a new secret; its id stays the same. The old secret stops working. A key from registration also gets a new lifetime. A key that an operator gave ends when it would have ended, unless it has the scope keys:renew. Of several concurrent requests one succeeds, the others get 409.",
  params: ClientParams,
  body: named(ExecutionNothing),
  response: { ...problemResponses(409), 200: answer(ExecutionKey, 'The key. Its new secret is shown only here.') },
};

export function renewKeyRoute(http: Http, context: ExecutionContext, { authenticator }: Parts): void {
  const options = { schema: renewSchema, ...needs('jobs:write'), ...bodyMayBeAbsent };
  http.post('/clients/:client_id/keys/renew', options, async (request) => {
    const caller = callerOf(request);
    const secretHash = secretHashOf(request);
    const renewed = await renewKey(context, { caller, clientId: request.params.client_id, secretHash });
    authenticator.forget?.(caller.keyId);
    return renderKey(renewed);
  });
}

function secretHashOf({ headers }: Pick<FastifyRequest, 'headers'>): Uint8Array {
  const parsed = parseApiKey(headers.authorization?.trim().split(/ +/)[1] ?? '');
  if (parsed === null) throw new AppError('UNAUTHORIZED');
  return parsed.secretHash;
}

const revokeSchema = {
  operationId: 'revokeKey',
  summary: 'Revoke a key',
  description:
    "Revokes a key of the client for good, even the caller's own or the last one. Jobs keep running. Revoking it again changes nothing.",
  params: ClientParams,
  body: named(ExecutionRevocationRequest),
  response: { ...problemResponses(409), 200: answer(ExecutionRevocation, 'The key is refused from now on.') },
};

export function revokeKeyRoute(http: Http, context: ExecutionContext, { authenticator }: Parts): void {
  http.post('/clients/:client_id/keys/revoke', { schema: revokeSchema, ...needs('jobs:write') }, async (request) => {
    const { key_id: keyId } = request.body;
    const clientId = request.params.client_id;
    const revocation = await revokeKeyOfClient(context, { caller: callerOf(request), clientId, keyId });
    authenticator.forget?.(keyId);
    return revocation;
  });
}

const renderKey = ({ apiKey, keyId, createdAt, expiresAt }: KeyGrant) => ({
  api_key: apiKey,
  key_id: keyId,
  created_at: createdAt.toISOString(),
  expires_at: expiresAt.toISOString(),
});

const getSchema = {
  operationId: 'getClient',
  summary: 'Get the client of the key',
  description: 'Returns the client of the key, its keys without their secrets, and its limits.',
  response: { 200: answer(ExecutionClientDetails, 'The client.') },
};

export function getClientRoute(http: Http, context: ExecutionContext): void {
  http.get('/clients/me', { schema: getSchema, ...needs('jobs:read') }, async (request) =>
    renderClient(await readClient(context, { caller: callerOf(request) })),
  );
}

const renderClient = ({ clientId, createdAt, keys, limits }: ClientView) => ({
  client_id: clientId,
  created_at: createdAt.toISOString(),
  keys: keys.map((key) => ({
    key_id: key.id,
    name: key.name,
    status: key.status,
    scopes: key.scopes as ApiKeyScope[],
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt.toISOString(),
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  })),
  limits: {
    requests_per_minute: limits.requestsPerMinute,
    requests_per_day: limits.quota,
    queue_size: limits.queueSize,
    active_jobs: limits.activeJobs,
    payload_bytes: limits.payloadBytes,
    max_runtime_ms: limits.maxRuntimeMs,
  },
});
