import { randomUUID } from 'node:crypto';
import { lookUp } from '../../core/dictionary.ts';
import { isUuid } from '../../core/ids.ts';
import { isJobTypeName } from '../../core/ingest/job-type.ts';
import { parseTimestamp } from '../../core/timestamp.ts';
import { createOrg, findOrg } from '../../ledger/access/orgs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { hasOrg, type ImportedJob, importIngestJob } from '../../ledger/ingest/import-job.ts';

/** `running`: only jobs that had ended can be imported. */
export type ImportOutcome = 'imported' | 'exists' | 'running';

export class UnreadableSnapshot extends Error {}

/** Adds one line of an export to the database. Throws `UnreadableSnapshot` if it is none. */
export async function importJob({ api }: Pick<Database, 'api'>, line: string): Promise<ImportOutcome> {
  const { snapshot, status, org } = readSnapshot(line);
  if (status !== 'completed' && status !== 'failed') return 'running';
  const orgId = (await hasOrg(api, snapshot.orgId)) ? snapshot.orgId : await orgNamed(api, org);
  return (await importIngestJob(api, { ...snapshot, orgId })) ? 'imported' : 'exists';
}

/** The org of another database has the same slug here. It is created if there is none. */
async function orgNamed(api: Database['api'], slug: string): Promise<string> {
  await createOrg(api, { id: randomUUID(), slug });
  const org = await findOrg(api, slug);
  if (org === null) throw new UnreadableSnapshot(`the org "${slug}" cannot be created`);
  return org.id;
}

const SLUG = /^[a-z0-9][a-z0-9._-]{0,99}$/;
const BUCKET_IN = /^s3:\/\/([^/]+)\//;

function readSnapshot(line: string): { snapshot: ImportedJob; status: unknown; org: string } {
  const given = parse(line);
  const text = (name: string): string => requireThat(lookUp(given, name), (value) => typeof value === 'string', name);
  const count = (name: string): number =>
    requireThat(lookUp(given, name), (value) => Number.isSafeInteger(value) && (value as number) >= 0, name);
  const time = (name: string): Date => {
    const read = parseTimestamp(text(name));
    if (!read.ok) throw new UnreadableSnapshot(`${name} is not a time`);
    return read.date;
  };
  // Of a direct producer, the key is what it gave. Older exports do not name producers.
  const producer = given.producer == null ? null : text('producer');
  const snapshot = {
    id: requireThat<string>(given.job_id, isUuid, 'job_id'),
    orgId: requireThat<string>(given.org_id, isUuid, 'org_id'),
    jobType: requireThat<string>(given.job_type, (value) => isJobTypeName(String(value)), 'job_type'),
    tenant: given.tenant === null ? null : text('tenant'),
    bucket:
      producer === null
        ? requireThat<string>(BUCKET_IN.exec(text('manifest_key'))?.[1], (value) => value !== undefined, 'manifest_key')
        : '',
    producer,
    manifestKey: producer === null || given.manifest_key === null ? null : text('manifest_key'),
    manifestSha256: text('manifest_sha256'),
    resourceCount: count('resource_count'),
    total: count('resource_total'),
    completed: count('resource_completed'),
    failed: count('resource_failed'),
    bytes: count('bytes'),
    createdAt: time('created_at'),
    updatedAt: time('updated_at'),
    lastError: errorIn(given.last_error),
  };
  const org = requireThat<string>(given.org, (value) => SLUG.test(String(value)), 'org');
  return { snapshot, status: given.status, org };
}

function errorIn(given: unknown): ImportedJob['lastError'] {
  if (typeof given !== 'object' || given === null) return null;
  const { code, message } = given as Record<string, unknown>;
  return { code: String(code).slice(0, 256), message: String(message).slice(0, 4_096) };
}

function parse(line: string): Record<string, unknown> {
  try {
    const value = JSON.parse(line);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Falls through to the error below.
  }
  throw new UnreadableSnapshot('the line is not a JSON object');
}

function requireThat<T>(value: unknown, isRight: (value: unknown) => boolean, name: string): T {
  if (!isRight(value)) throw new UnreadableSnapshot(`${name} is missing or not valid`);
  return value as T;
}
