import { manifestUri } from '../../core/ingest/object-key.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { IngestJob } from './read-jobs.ts';

/** A job as the operators' API shows it and an export writes it. */
export type IngestSnapshot = ReturnType<typeof snapshotOf>;

export const snapshotOf = (job: IngestJob) => ({
  job_id: job.id,
  job_type: job.jobType,
  status: job.status,
  org_id: job.orgId,
  org: job.orgSlug,
  tenant: job.tenant,
  created_at: formatTimestamp(job.createdAt),
  updated_at: formatTimestamp(job.updatedAt),
  resource_count: job.resourceCount,
  resource_total: job.resourceTotal,
  resource_completed: job.completed,
  resource_failed: job.failed,
  bytes: job.bytes,
  manifest_key: job.producer === null ? manifestUri({ bucket: job.bucket, jobType: job.jobType, jobId: job.id }) : job.manifestKey,
  manifest_sha256: job.manifestSha256,
  producer: job.producer,
  producer_job_id: job.producerJobId,
  log_cursor: { stream: 'jobs.logs' as const, offset: job.logOffset },
  last_error: job.lastError,
  finalizer: job.finalizer,
});
