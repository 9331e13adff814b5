import type { JobState } from '../states.ts';

export const INGEST_STATUSES = ['queued', 'in_progress', 'completed', 'failed'] as const;

/** The status of an ingest job, and of each of its resources. */
export type IngestStatus = (typeof INGEST_STATUSES)[number];

/** The status of a resource by the state of the job that downloads it. */
export const RESOURCE_STATUSES: Readonly<Record<JobState, IngestStatus>> = {
  pending: 'queued',
  delayed: 'queued',
  scheduled: 'queued',
  running: 'in_progress',
  retrying: 'in_progress',
  completed: 'completed',
  failed: 'failed',
  dead_letter: 'failed',
  cancelled: 'failed',
};
