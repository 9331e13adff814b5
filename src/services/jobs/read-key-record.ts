import { AppError, invalidRequest } from '../../core/errors.ts';
import { type IdempotencyRecord, KEY_STATUS_OF } from '../../core/idempotency-record.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import { FIELD_LIMITS } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { findKeyRecords, type KeyRecord } from '../../ledger/jobs/key-records.ts';

export type KeyRecordParams = Owner & {
  readonly key: string;
  readonly type?: string;
  /** Only keys of jobs of this project. */
  readonly keyProjectId?: string;
};

/** The most that an error lists. */
const MAX_LISTED = 20;

/** Returns the record of a valid key. Throws NOT_FOUND, or INVALID_REQUEST if several jobs have the key and the request does not say which. */
export async function readKeyRecord(engine: Engine, params: KeyRecordParams): Promise<IdempotencyRecord> {
  const { orgId, key, type = null } = params;
  const projectId = projectOf(params);
  // No key has such text, and PostgreSQL has no NUL.
  if (key.length > FIELD_LIMITS.idempotencyKey || `${key}${type}`.includes('\0') || type?.includes('\n')) throw noSuchKey(key);
  const found = await findKeyRecords(engine.database.reads.of(orgId), orgId, { key, type, projectId, limit: MAX_LISTED });
  const [record] = found;
  if (record === undefined) throw noSuchKey(key);
  if (found.length > 1) throw ambiguous(found);
  const job = await engine.reader.get({ orgId, projectId: null }, record.jobId);
  return { ...record, key, status: KEY_STATUS_OF[record.state], hasFailure: job?.lastFailure != null };
}

/** The key of a project reaches that project, whatever the request names. */
function projectOf({ projectId, keyProjectId }: KeyRecordParams): string | null {
  const asked = keyProjectId?.toLowerCase() ?? null;
  if (asked !== null && !isUuid(asked))
    throw invalidRequest({ field: 'project_id', code: 'INVALID_ID', message: 'project_id must be a UUID.' });
  if (projectId === null || asked === null || asked === projectId) return projectId ?? asked;
  throw new AppError('NOT_FOUND', {
    message: 'No idempotency key of this project is visible to the API key, which is bound to another project.',
  });
}

const noSuchKey = (key: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `The idempotency key ${JSON.stringify(key.slice(0, 100))} is not in use. It was never submitted, or has expired.`,
  });

function ambiguous(found: readonly KeyRecord[]): AppError {
  const choices = found.map(({ type, projectId }) => `type=${type}${projectId === null ? '' : `&project_id=${projectId}`}`);
  const types = new Set(found.map(({ type }) => type));
  const field = types.size > 1 ? 'type' : 'project_id';
  const message = `Several jobs have this idempotency key. Add one of these to the request: ${choices.join(', ')}.`;
  return invalidRequest({ field, code: 'AMBIGUOUS', message });
}
