import { Type } from 'typebox';
import { DEFAULT_SCOPES } from '../../core/api-key.ts';
import { durationMs } from '../../core/duration.ts';
import { AppError } from '../../core/errors.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { createKey } from '../../services/access/create-key.ts';
import { findKeys, type KeyView as StoredKey } from '../../services/access/list-keys.ts';
import { requireOrgById } from '../../services/access/manage-orgs.ts';
import { revokeKey } from '../../services/access/revoke-key.ts';
import type { Http } from '../door.ts';
import type { Scope } from '../shared/identity.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { answer, named } from '../shared/shapes.ts';
import { type Operator, operatorAsking, operatorOf } from './identity.ts';
import { CreatedKey, KeyList, KeyParams, NewKey, OrgParams, RevokedKey } from './org-schemas.ts';
import type { OperatorParts } from './parts.ts';
import { PAGE, Reason } from './schemas.ts';

export function keyRoutes(http: Http, parts: OperatorParts): void {
  const { ingest, forgetKey, config } = parts;
  const { database } = ingest.engine;
  const list = {
    operationId: 'listOrgKeys',
    summary: 'List the API keys of an org, without their secrets',
    params: OrgParams,
    querystring: Type.Object(PAGE, { additionalProperties: false }),
    response: { 200: answer(KeyList, 'A page of keys, oldest first.') },
  };
  http.get('/orgs/:org_id/keys', { schema: list, config }, async (request) => {
    const { id } = await requireOrgById(database, operatorOf(request), request.params.org_id);
    const { cursor, limit } = request.query;
    const { items, nextCursor } = await findKeys(database, id, { cursor: cursor ?? null, limit });
    return { items: items.map(renderKey), next_cursor: nextCursor };
  });

  const create = {
    operationId: 'createOrgKey',
    summary: 'Create an API key and show it once',
    description: 'Only a hash of the key is stored. A key cannot give scopes that it does not have itself.',
    params: OrgParams,
    body: named(NewKey),
    response: { 201: answer(CreatedKey, 'The key.') },
  };
  http.post('/orgs/:org_id/keys', { schema: create, config, ...bodyMayBeAbsent }, async (request, reply) => {
    const operator = operatorOf(request);
    const { id: orgId } = await requireOrgById(database, operator, request.params.org_id);
    const { name, scopes, project_id: projectId = null, expires_in: expiresIn, reason } = request.body;
    requireOwnScopes(operator, scopes ?? DEFAULT_SCOPES);
    const created = await createKey(database, {
      orgId,
      projectId,
      ...(name === undefined ? {} : { name }),
      ...(scopes === undefined ? {} : { scopes }),
      ...(expiresIn === undefined ? {} : { lifetimeMs: durationMs(expiresIn, 'expires_in') }),
      requester: operatorAsking(request, reason),
    });
    return reply.code(201).send({ ...membersOf(created), api_key: created.key });
  });

  const revoke = {
    operationId: 'revokeOrgKey',
    summary: 'Revoke an API key for good',
    description: 'Every process refuses the key within 5 seconds. Its jobs keep running.',
    params: KeyParams,
    body: Reason,
    response: { 200: answer(RevokedKey, 'The key is revoked.') },
  };
  http.delete('/orgs/:org_id/keys/:key_id', { schema: revoke, config, ...bodyMayBeAbsent }, async (request) => {
    const { id: orgId } = await requireOrgById(database, operatorOf(request), request.params.org_id);
    const requester = operatorAsking(request, request.body.reason);
    const { id, revokedAt } = await revokeKey(database, { keyId: request.params.key_id, orgId, requester });
    forgetKey(id);
    return { key_id: id, revoked_at: formatTimestamp(revokedAt) };
  });
}

function requireOwnScopes({ scopes: own }: Operator, wanted: readonly string[]): void {
  const foreign = own === null ? [] : wanted.filter((scope) => !own.has(scope as Scope));
  if (foreign.length === 0) return;
  const shown = foreign.join(', ').slice(0, 200);
  throw new AppError('FORBIDDEN', { message: `The API key lacks ${shown}, so it cannot give it to another key. Use the operator token.` });
}

type Shown = Pick<StoredKey, 'id' | 'orgId' | 'projectId' | 'name' | 'createdAt' | 'expiresAt'> & { readonly scopes: readonly string[] };

const membersOf = ({ id, orgId, projectId, name, scopes, createdAt, expiresAt }: Shown) => ({
  key_id: id,
  org_id: orgId,
  project_id: projectId,
  name,
  scopes: scopes as Scope[],
  created_at: formatTimestamp(createdAt),
  expires_at: formatTimestamp(expiresAt),
});

const renderKey = (key: StoredKey) => ({
  ...membersOf(key),
  status: key.status,
  last_used_at: key.lastUsedAt === null ? null : formatTimestamp(key.lastUsedAt),
  revoked_at: key.revokedAt === null ? null : formatTimestamp(key.revokedAt),
});
