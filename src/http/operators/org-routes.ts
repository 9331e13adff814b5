import { Type } from 'typebox';
import { AppError } from '../../core/errors.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { createOrg } from '../../services/access/create-org.ts';
import { listKeys } from '../../services/access/list-keys.ts';
import { changeOrg, deleteOrg, findOrgs, type ListedOrg, requireOrgById } from '../../services/access/manage-orgs.ts';
import type { Http } from '../door.ts';
import { answer, named } from '../shared/shapes.ts';
import { operatorAsking, operatorOf, requireEveryOrg } from './identity.ts';
import { DeletedOrg, NewOrg, OrgChange, OrgDeletion, OrgList, OrgParams, OrgView } from './org-schemas.ts';
import type { OperatorParts } from './parts.ts';
import { PAGE } from './schemas.ts';

const renderOrg = ({ id, slug, createdAt, requestsPerMinute, maxRunning }: ListedOrg) => ({
  org_id: id,
  name: slug,
  created_at: formatTimestamp(createdAt),
  requests_per_minute: requestsPerMinute,
  max_running: maxRunning,
});

export function readOrgRoutes(http: Http, { ingest: { engine }, config }: OperatorParts): void {
  const list = {
    operationId: 'listOrgs',
    summary: 'List orgs',
    description: 'In the order of their names. The key of an org sees its own org only.',
    querystring: Type.Object(PAGE, { additionalProperties: false }),
    response: { 200: answer(OrgList, 'A page of orgs.') },
  };
  http.get('/orgs', { schema: list, config }, async (request) => {
    const { cursor, limit } = request.query;
    const { items, nextCursor } = await findOrgs(engine.database, operatorOf(request), { cursor: cursor ?? null, limit });
    return { items: items.map(renderOrg), next_cursor: nextCursor };
  });
  const get = { operationId: 'getOrg', summary: 'Get an org', params: OrgParams, response: { 200: answer(OrgView, 'The org.') } };
  http.get('/orgs/:org_id', { schema: get, config }, async (request) =>
    renderOrg(await requireOrgById(engine.database, operatorOf(request), request.params.org_id)),
  );
}

export function changeOrgRoutes(http: Http, { ingest: { engine }, forgetKey, config }: OperatorParts): void {
  const { database } = engine;
  const create = {
    operationId: 'createOrg',
    summary: 'Create an org',
    description: 'Needs the operator token.',
    body: named(NewOrg),
    response: { 201: answer(OrgView, 'The org is created.') },
  };
  http.post('/orgs', { schema: create, config }, async (request, reply) => {
    requireEveryOrg(request, 'New orgs');
    const { name, requests_per_minute: requestsPerMinute, reason } = request.body;
    const { id } = await createOrg(database, {
      slug: name,
      requestsPerMinute,
      requester: operatorAsking(request, reason),
      field: 'name',
    });
    return reply.code(201).send(renderOrg(await requireOrgById(database, operatorOf(request), id)));
  });

  const change = {
    operationId: 'changeOrg',
    summary: 'Change an org',
    description: 'Members that are absent stay as they are. Only the operator token changes limits.',
    params: OrgParams,
    body: named(OrgChange),
    response: { 200: answer(OrgView, 'The org.') },
  };
  http.patch('/orgs/:org_id', { schema: change, config }, async (request) => {
    const operator = operatorOf(request);
    const org = await requireOrgById(database, operator, request.params.org_id);
    const { name: slug, requests_per_minute: requestsPerMinute, max_running: maxRunning, reason } = request.body;
    if (operator.orgId !== null && (requestsPerMinute !== undefined || maxRunning !== undefined)) {
      throw new AppError('FORBIDDEN', { message: 'Only the operator token may change the limits of an org.' });
    }
    const requester = operatorAsking(request, reason);
    return renderOrg(await changeOrg(engine, { org, change: { slug, requestsPerMinute, maxRunning }, requester }));
  });

  const remove = {
    operationId: 'deleteOrg',
    summary: 'Delete an org with all its data',
    description:
      'Needs the operator token. All keys of the org stop working. Its data is removed in bounded steps; the rows of its audit trail stay.',
    params: OrgParams,
    body: named(OrgDeletion),
    response: { 202: answer(DeletedOrg, 'The org is being deleted.') },
  };
  http.delete('/orgs/:org_id', { schema: remove, config }, async (request, reply) => {
    const operator = operatorOf(request);
    const org = await requireOrgById(database, operator, request.params.org_id);
    requireEveryOrg(request, 'Deletions of orgs');
    const keys = await listKeys(database, { orgId: org.id, projectId: null });
    await deleteOrg(database, { org, confirm: request.body.confirm, requester: operatorAsking(request, request.body.reason) });
    for (const { id } of keys) forgetKey(id);
    return reply.code(202).send({ org_id: org.id, state: 'deleting' as const });
  });
}
