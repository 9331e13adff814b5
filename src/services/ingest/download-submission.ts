import { FETCH_TYPE, type FetchTask } from '../../core/ingest/fetch-task.ts';
import { type IngestJobType, parallelDownloadsOf, plainJobType } from '../../core/ingest/job-type.ts';
import { INGEST_QUEUE } from '../../core/ingest/policy.ts';
import type { Priority } from '../../core/priority.ts';
import type { Submission } from '../../core/submission.ts';
import type { IngestContext } from './context.ts';

/** The configured job type, or one with default options if it is not configured. */
export const knownType = ({ settings }: IngestContext, name: string): IngestJobType => settings.jobTypes.get(name) ?? plainJobType(name);

type Wishes = { readonly priority?: Priority; readonly traceparent?: string | null };

/** The job of one download. All downloads of an ingest job share its limit (`max_parallel_downloads`). */
export function downloadSubmission(jobType: IngestJobType, task: FetchTask, { priority, traceparent }: Wishes = {}): Submission {
  const concurrency = parallelDownloadsOf(jobType);
  return {
    type: FETCH_TYPE,
    payload: task as unknown as Submission['payload'],
    queue: INGEST_QUEUE,
    ...(priority === undefined ? {} : { priority }),
    ...(traceparent == null ? {} : { traceparent }),
    ...(concurrency === null ? {} : { limit: { key: `fetchbox:${task.jobId}`, concurrency } }),
  };
}
