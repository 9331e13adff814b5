import type { Issue } from '../../core/errors.ts';
import type { Policy } from '../../core/policy.ts';
import type { Submission } from '../../core/submission.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';

/** What a door decides for its callers. */
export type SubmissionTerms = {
  /** Replaces the policy that the handlers of the type registered. */
  profile?: Policy;
  /** Identifies the request when the submission is derived from it. Repeats of a request must have the same fingerprint. */
  fingerprint?: string;
  requestId?: string;
  /** Refuse a queue that does not exist, instead of creating it. */
  knownQueuesOnly?: boolean;
};

export type SubmissionRequest = {
  orgId: string;
  submission: Submission;
  actor: string | null;
  terms?: SubmissionTerms;
};

/** A valid submission as the job to write, or every issue it has. */
export type Prepared = { ok: true; entry: JobToWrite } | { ok: false; issues: readonly Issue[] };
