import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import type { IngestError } from './read-jobs.ts';

/** An ended job from an export. */
export type ImportedJob = {
  readonly id: string;
  readonly orgId: string;
  readonly jobType: string;
  readonly tenant: string | null;
  readonly bucket: string;
  readonly manifestSha256: string;
  readonly resourceCount: number;
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly bytes: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly lastError: IngestError | null;
  readonly producer: string | null;
  readonly manifestKey: string | null;
};

type Params = Omit<ImportedJob, 'lastError' | 'manifestSha256'> & { sha: string; lastError: string | null };

const JOB_BYTES = 1_000;

// It has no tasks and no log here. Its retention begins again with the import.
const IMPORT = namedStatement<Params, { id: string }>(
  'import_ingest_job',
  `INSERT INTO millrace.ingest_jobs (id, org_id, job_type, tenant, bucket, manifest_sha256, resource_count, resource_total, stored_bytes,
     log_offset, actor, created_at, updated_at, round, settled_at, completed, failed, bytes, last_error, producer, manifest_key)
   SELECT $id::uuid, $orgId::uuid, $jobType::text, $tenant::text, $bucket::text, $sha::text, $resourceCount::int4, $total::int4,
     ${JOB_BYTES}, (SELECT next_offset FROM millrace.streams WHERE name = 'jobs.logs'), 'system:import', $createdAt::timestamptz,
     $updatedAt::timestamptz, 1, millrace.clock(), $completed::int4, $failed::int4, $bytes::int8, $lastError::jsonb, $producer::text, $manifestKey::text
   ON CONFLICT (id) DO NOTHING RETURNING id`,
);

/** Returns false if the job exists. */
export async function importIngestJob(db: Queryable, job: ImportedJob): Promise<boolean> {
  const lastError = job.lastError === null ? null : JSON.stringify(job.lastError);
  return (await runNamed(db, IMPORT, { ...job, sha: job.manifestSha256, lastError })).length === 1;
}

const HAS_ORG = statement('has_org', 'SELECT id FROM millrace.orgs WHERE id = $1::uuid');

export async function hasOrg(db: Queryable, orgId: string): Promise<boolean> {
  return (await run(db, HAS_ORG, [orgId])).length === 1;
}
