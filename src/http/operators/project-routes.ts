import { Type } from 'typebox';
import { formatTimestamp } from '../../core/timestamp.ts';
import { requireOrgById } from '../../services/access/manage-orgs.ts';
import { createProject, listProjects, type Project, renameProject } from '../../services/access/projects.ts';
import type { Http } from '../door.ts';
import { answer, named } from '../shared/shapes.ts';
import { operatorAsking, operatorOf } from './identity.ts';
import { NewProject, OrgParams, ProjectChange, ProjectList, ProjectParams, ProjectView } from './org-schemas.ts';
import type { OperatorParts } from './parts.ts';
import { PAGE } from './schemas.ts';

const renderProject = (orgId: string, { id, name, createdAt }: Project) => ({
  project_id: id,
  org_id: orgId,
  name,
  created_at: formatTimestamp(createdAt),
});

export function projectRoutes(http: Http, { ingest: { engine }, config }: OperatorParts): void {
  const { database } = engine;
  const list = {
    operationId: 'listProjects',
    summary: 'List the projects of an org',
    params: OrgParams,
    querystring: Type.Object(PAGE, { additionalProperties: false }),
    response: { 200: answer(ProjectList, 'A page of projects, in the order of their names.') },
  };
  http.get('/orgs/:org_id/projects', { schema: list, config }, async (request) => {
    const { id } = await requireOrgById(database, operatorOf(request), request.params.org_id);
    const { cursor, limit } = request.query;
    const { items, nextCursor } = await listProjects(database, id, { cursor: cursor ?? null, limit });
    return { items: items.map((project) => renderProject(id, project)), next_cursor: nextCursor };
  });

  const create = {
    operationId: 'createProject',
    summary: 'Create a project of an org',
    params: OrgParams,
    body: named(NewProject),
    response: { 201: answer(ProjectView, 'The project is created.') },
  };
  http.post('/orgs/:org_id/projects', { schema: create, config }, async (request, reply) => {
    const { id: orgId } = await requireOrgById(database, operatorOf(request), request.params.org_id);
    const { name, project_id: id, reason } = request.body;
    const requester = operatorAsking(request, reason);
    const project = await createProject(database, { orgId, name, ...(id === undefined ? {} : { id }), requester });
    return reply.code(201).send(renderProject(orgId, project));
  });

  const change = {
    operationId: 'changeProject',
    summary: 'Rename a project',
    params: ProjectParams,
    body: named(ProjectChange),
    response: { 200: answer(ProjectView, 'The project.') },
  };
  http.patch('/orgs/:org_id/projects/:project_id', { schema: change, config }, async (request) => {
    const { id: orgId } = await requireOrgById(database, operatorOf(request), request.params.org_id);
    const { name, reason } = request.body;
    const requester = operatorAsking(request, reason);
    return renderProject(orgId, await renameProject(database, { orgId, id: request.params.project_id, name, requester }));
  });
}
