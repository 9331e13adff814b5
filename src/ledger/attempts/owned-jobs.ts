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
  `SELECT DISTINCT ON (j.org_id, j.seq) j.org_id, j.seq, j.id, j.lease_seq, j.state, j.job_type, j.policy_id, j.attempts_started,
          j.max_attempts, c.claim_no, ${MAY_RUN} AS may_run,
          extract(epoch FROM millrace.clock() - j.started_at)::float8 * 1000 AS running_ms,
          extract(epoch FROM j.lifetime_deadline - millrace.clock())::float8 * 1000 AS lifetime_left_ms
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

type Row = {
  org_id: string;
  seq: number;
  id: string;
  lease_seq: number;
  state: 'scheduled' | 'running';
  job_type: string;
  policy_id: number;
  attempts_started: number;
  max_attempts: number;
  claim_no: number;
  may_run: boolean;
  running_ms: number | null;
  lifetime_left_ms: number | null;
};

/**
 * Returns the jobs that a worker holds according to the ledger. The worker may not know some of them, if it never received a result.
 */
export async function ownedJobs(db: Queryable, workerId: number): Promise<OwnedJob[]> {
  const rows = await run<Row>(db, OWNED, [workerId]);
  return rows.map((row) => ({
    orgId: row.org_id,
    seq: Number(row.seq),
    id: row.id,
    leaseSeq: Number(row.lease_seq),
    state: row.state,
    mayRun: row.may_run,
    jobType: row.job_type,
    policyId: row.policy_id,
    attemptsStarted: row.attempts_started,
    maxAttempts: row.max_attempts,
    claimNo: Number(row.claim_no),
    runningMs: row.running_ms,
    lifetimeLeftMs: row.lifetime_left_ms,
  }));
}
