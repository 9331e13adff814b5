import { randomUUID } from 'node:crypto';
import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import {
  createProject as createInLedger,
  findProject,
  listProjects as listInLedger,
  type Project,
  renameProject as renameInLedger,
} from '../../ledger/access/projects.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';

export type { Project };

const MAX_NAME_LENGTH = 100;

export type CreateProjectRequest = {
  readonly orgId: string;
  readonly name: string;
  /** Given by callers that already have an id for it. */
  readonly id?: string;
  readonly requester: Requester;
};

export async function createProject({ api }: Pick<Database, 'api'>, request: CreateProjectRequest): Promise<Project> {
  const { orgId, name, id = randomUUID(), requester } = request;
  checkName(name);
  if (!isUuid(id)) throw invalidRequest({ field: 'project_id', code: 'INVALID_ID', message: 'project_id must be a UUID' });
  const projectId = id.toLowerCase();
  const created = await inTransaction(
    api,
    async (client) => {
      const project = await createInLedger(client, orgId, { id: projectId, name });
      if (project !== null) await recordActions(client, [{ orgId, projectId, event: 'project.created', requester, details: { name } }]);
      return project;
    },
    { mayRepeat: true },
  );
  if (created === null) throw new AppError('CONFLICT', { message: `The org has a project with this name or id. Choose another name.` });
  return created;
}

export type RenameProjectRequest = {
  readonly orgId: string;
  readonly id: string;
  readonly name: string;
  readonly requester: Requester;
};

export async function renameProject({ api }: Pick<Database, 'api'>, request: RenameProjectRequest): Promise<Project> {
  const { orgId, id, name, requester } = request;
  checkName(name);
  const before = isUuid(id) ? await findProject(api, orgId, id) : null;
  if (before === null) throw new AppError('NOT_FOUND', { message: `The org has no project ${id.slice(0, 100)}.` });
  const renamed = await inTransaction(
    api,
    async (client) => {
      const project = await renameInLedger(client, orgId, { id, name });
      const details = { name, previous_name: before.name };
      if (project !== null) await recordActions(client, [{ orgId, projectId: before.id, event: 'project.changed', requester, details }]);
      return project;
    },
    { mayRepeat: true },
  );
  if (renamed === null) throw new AppError('CONFLICT', { message: 'The org has a project with this name. Choose another name.' });
  return renamed;
}

/** In the order of their names. */
export async function listProjects(
  { api, reads }: Pick<Database, 'api' | 'reads'>,
  orgId: string,
  { cursor, limit }: { cursor: string | null; limit: number },
): Promise<{ items: Project[]; nextCursor: string | null }> {
  const seal = await sealOf(api);
  const scope = { list: 'PROJECTS', orgId, filter: {} } as const;
  const after = cursor === null ? '' : (readPageCursor(seal, scope, cursor)[0] as string);
  const rows = await listInLedger(reads.of(orgId), { orgId, after, limit: limit + 1 });
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { items, nextCursor: hasMore ? writePageCursor(seal, scope, [last.name]) : null };
}

function checkName(name: string): void {
  const isFit = name.length >= 1 && name.length <= MAX_NAME_LENGTH && name.trim() === name && !/\p{Cc}|\p{Cs}/u.test(name);
  if (isFit) return;
  const message = `the name of a project must have 1 to ${MAX_NAME_LENGTH} characters, no control characters, and no space at its ends`;
  throw invalidRequest({ field: 'name', code: 'INVALID_NAME', message });
}
