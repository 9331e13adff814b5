import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Attempted } from '../../ledger/jobs/submit-jobs.ts';

/** What the jobs of a write are waiting for. It decides who is woken. */
export type AcceptedJobs = {
  /** Types of jobs that may start now. */
  readonly readyTypes: ReadonlySet<string>;
  /** Some jobs wait for their time. */
  readonly isTimed: boolean;
  /** Some jobs wait for other jobs. */
  readonly isPending: boolean;
};

export function acceptedJobs(written: readonly Attempted[], entries: readonly JobToWrite[]): AcceptedJobs {
  const readyTypes = new Set<string>();
  let isTimed = false;
  let isPending = false;
  for (const [index, each] of written.entries()) {
    if (each.kind !== 'accepted') continue;
    if (each.state === 'scheduled') readyTypes.add((entries[index] as JobToWrite).job.type);
    else if (each.state === 'delayed') isTimed = true;
    else isPending = true;
  }
  return { readyTypes, isTimed, isPending };
}
