import type { NewJob } from '../../core/submission.ts';

/** A validated job with its id, the number of its policy and its relations to other jobs. */
export type JobToWrite = {
  id: string;
  orgId: string;
  job: NewJob;
  policyId: number;
  actor: string | null;
  /** The number of its limit. Absent for a job without a limit. */
  limitId?: number;
  /** The scheduled run that submits it. Absent for a job that no schedule submits. */
  plannedAt?: Date;
  placement: Placement | null;
};

/** The relations of a job to others. A job that `waits` starts as pending. */
export type Placement = {
  priority: number;
  depth: number;
  parentSeq: number | null;
  joinsParent: boolean;
  dependsOnSeqs: number[];
  waits: boolean;
};
