import { openDatabase } from '../ledger/driver/database.ts';
import { jobAttempts, type RecordedAttempt } from '../ledger/reads/job-attempts.ts';
import type { JobView } from '../services/jobs/read-job.ts';

export type JobWithAttempts = JobView & { readonly attempts?: readonly RecordedAttempt[] };

/** The library tells attempts of failed jobs only; an operator wants to see those of any job. */
export async function withAttempts(job: JobView, databaseUrl: string): Promise<JobWithAttempts> {
  const database = openDatabase({ url: databaseUrl, apiPool: 1 });
  try {
    return { ...job, attempts: await jobAttempts(database.api, job.orgId, job.id) };
  } finally {
    await database.close();
  }
}
