import type { Issue } from '../../core/errors.ts';
import type { Policy } from '../../core/policy.ts';
import type { SimulationBounds } from '../../core/simulation.ts';
import type { Submission } from '../../core/submission.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';

/** What a door decides for the submissions of its callers. */
export type SubmissionTerms = {
  /** Replaces the policy that the workers of the type registered. */
  profile?: Policy;
  /** Identifies the request that the submission is derived from. Repeats of a request must have the same fingerprint. */
  fingerprint?: string;
  requestId?: string;
  /** Refuses a queue that does not exist, instead of creating it. */
  knownQueuesOnly?: boolean;
  /** The most that a simulated job may ask for. */
  simulation?: SimulationBounds;
  /** The scheduled run that submits the job. Governed jobs of two runs are distinct even if their payloads are equal. */
  run?: string;
};

export type SubmissionRequest = {
  orgId: string;
  submission: Submission;
  actor: string | null;
  terms?: SubmissionTerms;
};

/** A valid submission as the job to write, or all issues of an invalid one. */
export type Prepared = { ok: true; entry: JobToWrite } | { ok: false; issues: readonly Issue[] };
