import type { NewJob } from '../../core/submission.ts';

/** A job ready to be written: checked, with its id, its policy's number and its place among other jobs. */
export type JobToWrite = {
  id: string;
  orgId: string;
  job: NewJob;
  policyId: number;
  actor: string | null;
  placement: Placement | null;
  /** Its reserved place in a fair queue. Without one it is ordered by submission. */
  stamp?: number;
};

/** What ties a job to others. One that `waits` is born pending. */
export type Placement = {
  priority: number;
  depth: number;
  parentSeq: number | null;
  joinsParent: boolean;
  dependsOnSeqs: number[];
  waits: boolean;
};
