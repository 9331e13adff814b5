import { int4Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { namedStatement, type Queryable, runNamed } from '../driver/statement.ts';

/** A resource and the job that downloads it. */
type LinkedResource = { readonly resourceId: string; readonly taskId: string };

export type IngestJobToWrite = {
  readonly id: string;
  readonly orgId: string;
  readonly jobType: string;
  readonly tenant: string | null;
  readonly bucket: string;
  readonly manifestSha256: string;
  readonly resourceCount: number;
  readonly resources: readonly LinkedResource[];
  readonly storedBytes: number;
  readonly actor: string;
  readonly requestId: string | null;
};

type Params = {
  id: string;
  orgId: string;
  jobType: string;
  tenant: string | null;
  bucket: string;
  sha: string;
  count: number;
  total: number;
  storedBytes: number;
  actor: string;
  requestId: string | null;
  positions: Buffer;
  resourceIds: Buffer;
  taskIds: Buffer;
};

// The offset is read before the lines of the job are numbered, so none of them is below it.
const ACCEPT = namedStatement<Params, { created_at: Date }>(
  'accept_ingest_job',
  `WITH made AS (
     INSERT INTO millrace.ingest_jobs (id, org_id, job_type, tenant, bucket, manifest_sha256, resource_count, resource_total, stored_bytes,
       log_offset, actor, request_id, created_at, updated_at)
     SELECT $id::uuid, $orgId::uuid, $jobType::text, $tenant::text, $bucket::text, $sha::text, $count::int4, $total::int4, $storedBytes::int8,
       (SELECT next_offset FROM millrace.streams WHERE name = 'jobs.logs'), $actor::text, $requestId::text, t.now, t.now
     FROM (SELECT millrace.clock() AS now) t
     RETURNING created_at
   ), linked AS (
     INSERT INTO millrace.ingest_resources (job_id, position, org_id, resource_id, task_id)
     SELECT $id::uuid, u.position, $orgId::uuid, u.resource_id, u.task_id
     FROM unnest($positions::int4[], $resourceIds::text[], $taskIds::uuid[]) AS u(position, resource_id, task_id)
   ), kept AS (
     DELETE FROM millrace.ingest_intents WHERE job_id = $id::uuid
   )
   SELECT created_at FROM made`,
);

/** Writes the row of an ingest job and the links to its tasks, and keeps its objects from the sweeper. */
export async function acceptIngestJob(db: Queryable, job: IngestJobToWrite): Promise<{ createdAt: Date }> {
  const { id, orgId, jobType, tenant, bucket, resources, storedBytes, actor, requestId } = job;
  const [row] = await runNamed(db, ACCEPT, {
    id,
    orgId,
    jobType,
    tenant,
    bucket,
    sha: job.manifestSha256,
    count: job.resourceCount,
    total: resources.length,
    storedBytes,
    actor,
    requestId,
    positions: int4Array(resources.map((_, index) => index)),
    resourceIds: textArray(resources.map(({ resourceId }) => resourceId)),
    taskIds: uuidArray(resources.map(({ taskId }) => taskId)),
  });
  return { createdAt: (row as { created_at: Date }).created_at };
}
