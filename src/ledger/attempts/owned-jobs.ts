import { type Queryable, run, statement } from '../driver/statement.ts';
import { MAY_RUN } from './start-jobs.ts';

/**
 * Claims `c` and the jobs `j` that they lease, for a FROM. OFFSET 0 keeps the planner from reading every job of an org to find these few.
 * With a plan made while the tables were empty it did so (measured after 10 000 jobs: 20 000 pages and 50 ms a claim).
 */
export const LEASED = `millrace.claims c CROSS JOIN LATERAL unnest(c.seqs) AS s(seq) CROSS JOIN LATERAL (
     SELECT * FROM millrace.jobs j WHERE j.org_id = c.org_id AND j.seq = s.seq AND j.worker_id = c.worker_id
       AND j.state IN ('scheduled', 'running') OFFSET 0) j`;

// The statement reads the claims, so its cost depends on the jobs of the worker and not on the size of the ledger. A worker that lost a
// job and got it again has the job in two claims. The lease belongs to the newer claim, and only that one may be closed with it.
const OWNED = statement(
  'owned_jobs',
  `SELECT DISTINCT ON (j.org_id, j.seq) j.org_id AS "orgId", j.seq, j.id, j.lease_seq AS "leaseSeq", j.state, ${MAY_RUN} AS "mayRun",
     j.job_type AS "jobType", j.policy_id AS "policyId", j.attempts_started AS "attemptsStarted", j.max_attempts AS "maxAttempts",
     c.claim_no AS "claimNo", extract(epoch FROM millrace.clock() - j.started_at)::float8 * 1000 AS "runningMs",
     extract(epoch FROM j.lifetime_deadline - millrace.clock())::float8 * 1000 AS "lifetimeLeftMs"
   FROM ${LEASED} WHERE c.worker_id = $1
   ORDER BY j.org_id, j.seq, c.claim_no DESC`,
);

export type OwnedJob = {
  orgId: string;
  seq: number;
  id: string;
  leaseSeq: number;
  state: 'scheduled' | 'running';
  /** Its handler may be running although its start was not written. */
  mayRun: boolean;
  jobType: string;
  policyId: number;
  attemptsStarted: number;
  maxAttempts: number;
  claimNo: number;
  runningMs: number | null;
  lifetimeLeftMs: number | null;
};

/**
 * Returns the jobs that a worker has leased according to the ledger. The worker may not know some of them, if it never received a result.
 */
export async function ownedJobs(db: Queryable, workerId: number): Promise<OwnedJob[]> {
  return run<OwnedJob>(db, OWNED, [workerId]);
}
