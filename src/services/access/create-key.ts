import { randomBytes } from 'node:crypto';
import {
  API_KEY_RANDOM_BYTES,
  API_KEY_SCOPES,
  type ApiKeyScope,
  DEFAULT_KEY_LIFETIME_MS,
  DEFAULT_SCOPES,
  formatApiKey,
} from '../../core/api-key.ts';
import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { AppError, type Issue } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { unknownProject } from '../../core/unknown-project.ts';
import { createApiKey } from '../../ledger/access/api-keys.ts';
import { findProject } from '../../ledger/access/projects.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { isOurs, type Queryable } from '../../ledger/driver/statement.ts';
import { AT_CONSOLE } from './requesters.ts';

export type CreateKeyRequest = {
  orgId: string;
  name?: string;
  scopes?: readonly string[];
  projectId?: string | null;
  /** Default: 90 days. */
  lifetimeMs?: number;
  requester?: Requester;
};

/** `key` contains the secret. It is shown once and cannot be read again. */
export type CreatedKey = {
  readonly id: string;
  readonly key: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly name: string;
  readonly scopes: readonly ApiKeyScope[];
  readonly createdAt: Date;
  readonly expiresAt: Date;
};

const MAX_NAME_LENGTH = 100;
const MAX_LIFETIME_MS = 3_650 * 86_400_000;

/** `api` may be a client with a transaction of the caller. */
export async function createKey({ api }: { readonly api: Queryable }, request: CreateKeyRequest): Promise<CreatedKey> {
  const { orgId, name = 'api key', projectId = null, lifetimeMs = DEFAULT_KEY_LIFETIME_MS } = request;
  const scopes = [...new Set(request.scopes ?? DEFAULT_SCOPES)] as ApiKeyScope[];
  const issues = checkKey({ orgId, name, scopes, projectId, lifetimeMs });
  const isUnknown = issues.length === 0 && projectId !== null && (await findProject(api, orgId, projectId)) === null;
  if (isUnknown) issues.push({ ...unknownProject('projectId'), message: `the org has no project ${projectId}: create it first` });
  if (issues.length > 0) {
    throw new AppError('INVALID_REQUEST', {
      message: issues.map(({ message }) => message).join('; '),
      details: issues,
    });
  }
  const { id, key, secretHash } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
  const stored = { id, projectId, name, secretHash, scopes, lifetimeMs };
  const { requester = AT_CONSOLE } = request;
  const write = async (client: Queryable) => {
    const times = await createApiKey(client, orgId, stored);
    const details = { key_id: id, name, scopes, expires_at: times.expiresAt.toISOString() };
    await recordActions(client, [{ orgId, projectId, event: 'key.created', requester, details }]);
    return times;
  };
  const { createdAt, expiresAt } = await (isOurs(api) ? inTransaction(api as Database['api'], write) : write(api));
  return { id, key, orgId, projectId, name, scopes, createdAt, expiresAt };
}

function checkKey({ orgId, name, scopes, projectId, lifetimeMs }: Required<Omit<CreateKeyRequest, 'requester'>>): Issue[] {
  const issues: Issue[] = [];
  if (orgId === SYSTEM_ORG_ID) {
    issues.push({
      field: 'orgId',
      code: 'RESERVED_ORG',
      message: 'this org is reserved for the system and cannot have keys',
    });
  }
  if (name.length < 1 || name.length > MAX_NAME_LENGTH) {
    issues.push({
      field: 'name',
      code: 'OUT_OF_RANGE',
      message: `the name must have 1 to ${MAX_NAME_LENGTH} characters`,
    });
  }
  if (scopes.length === 0) issues.push({ field: 'scopes', code: 'REQUIRED', message: 'a key needs at least one scope' });
  for (const scope of scopes) {
    if ((API_KEY_SCOPES as readonly string[]).includes(scope)) continue;
    const message = `there is no scope "${scope}"${suggestion(scope, API_KEY_SCOPES)}`;
    issues.push({ field: 'scopes', code: 'UNKNOWN_SCOPE', message });
  }
  if (projectId !== null && !isUuid(projectId)) {
    issues.push({ field: 'projectId', code: 'INVALID_ID', message: 'the project id must be a UUID' });
  }
  if (!(lifetimeMs >= 1_000 && lifetimeMs <= MAX_LIFETIME_MS)) {
    issues.push({
      field: 'expires',
      code: 'OUT_OF_RANGE',
      message: 'the lifetime of a key must be between one second and ten years',
    });
  }
  return issues;
}
