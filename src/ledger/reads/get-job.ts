import { hasResult, type Job, type JobResult, type JobSummary } from '../../core/job.ts';
import { type Owner, reaches } from '../../core/owner.ts';
import { boolArray, uuidArray } from '../driver/binary-array.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import {
  dateOf,
  JOB_COLUMNS,
  JOB_JOINS,
  type PayloadRow,
  payloadColumns,
  payloadOf,
  type Time,
  toJob,
  toJobWithPayload,
} from './job-row.ts';

/** The parts of a job that may be large. They are read only on request. */
export type JobParts = { readonly payload?: boolean; readonly result?: boolean };
export type WithPayload = JobParts & { readonly payload: true };

export type WantedJob = JobParts & Owner & { readonly id: string };

type Params = { orgIds: Buffer; ids: Buffer; payloads: Buffer; results: Buffer };
type Row = PayloadRow & {
  ord: number;
  result: string | null;
  result_bytes: Uint8Array | null;
  attempt_ended_at: Time | null;
};

// A job can end while it waits for its next attempt, so the end of its last attempt is read from its history. A completed job ended with
// its attempt and needs no such lookup, which takes most of a read (measured under load: 5 000 completed jobs in 10 s with it).
const RESULT_COLUMNS = `
  CASE WHEN w.result THEN j.result::text END AS result, CASE WHEN w.result THEN j.result_bytes END AS result_bytes,
  CASE WHEN w.result AND j.completed_at IS NOT NULL AND j.state <> 'completed' THEN
    (SELECT e.at FROM millrace.events e WHERE e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
     AND e.from_state = 'running'
     ORDER BY e.n DESC LIMIT 1) END AS attempt_ended_at`;

// Looks up jobs by id alone. The planner must not scan the index that begins with the org.
const GET = namedStatement<Params, Row>(
  'get_jobs_of_orgs',
  `SELECT ${JOB_COLUMNS}, ${payloadColumns('w.payload')}, ${RESULT_COLUMNS}, w.ord::int4 AS ord
   FROM unnest($orgIds::uuid[], $ids::uuid[], $payloads::bool[], $results::bool[]) WITH ORDINALITY AS w(org_id, id, payload, result, ord)
   JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = w.org_id) IS TRUE ${JOB_JOINS}`,
);

/** Returns one entry for each wanted job, in order. It is null if the owner has no such job. */
export async function getJobsOfOrgs(db: Queryable, wanted: readonly WantedJob[]): Promise<(JobSummary | null)[]> {
  const rows = await runNamed(db, GET, {
    orgIds: uuidArray(wanted.map(({ orgId }) => orgId)),
    ids: uuidArray(wanted.map(({ id }) => id)),
    payloads: boolArray(wanted.map(({ payload = false }) => payload)),
    results: boolArray(wanted.map(({ result = false }) => result)),
  });
  const jobs: (JobSummary | null)[] = wanted.map(() => null);
  for (const row of rows) {
    const asked = wanted[row.ord - 1] as WantedJob;
    const { payload, result } = asked;
    const job = payload ? toJobWithPayload(row) : toJob(row);
    if (!reaches(asked, job)) continue;
    jobs[row.ord - 1] = result ? withResult(job, row) : job;
  }
  return jobs;
}

/** Returns a job, or null if the owner has no such job. */
export async function getJob(db: Queryable, owner: Owner, id: string, parts: WithPayload): Promise<Job | null>;
export async function getJob(db: Queryable, owner: Owner, id: string, parts?: JobParts): Promise<JobSummary | null>;
export async function getJob(db: Queryable, owner: Owner, id: string, parts: JobParts = {}): Promise<JobSummary | null> {
  const [job] = await getJobsOfOrgs(db, [{ orgId: owner.orgId, projectId: owner.projectId, id, ...parts }]);
  return job ?? null;
}

/** Returns the jobs that exist, with their payloads, in the order of `ids`. */
export async function getJobs(db: Queryable, { orgId, projectId }: Owner, ids: readonly string[]): Promise<Job[]> {
  const jobs = await getJobsOfOrgs(
    db,
    ids.map((id) => ({ orgId, projectId, id, payload: true })),
  );
  return jobs.filter((job) => job !== null) as Job[];
}

/** Adds the result of the last attempt to a job that has ended after one. */
function withResult<Found extends JobSummary>(job: Found, row: Row): Found {
  return hasResult(job) ? { ...job, result: resultOf(row, job) } : job;
}

function resultOf(row: Row, job: JobSummary): JobResult {
  const endedAt = dateOf(row.attempt_ended_at) ?? job.completedAt;
  const durationMs = endedAt === null || job.startedAt === null ? 0 : endedAt.getTime() - job.startedAt.getTime();
  const succeeded = job.state === 'completed';
  const hasOutput = row.result !== null || row.result_bytes !== null;
  return {
    status: succeeded ? 'SUCCESS' : 'FAILURE',
    output: succeeded && hasOutput ? payloadOf(row.result, row.result_bytes) : null,
    error: succeeded ? null : job.lastFailure,
    durationMs: Math.max(0, durationMs),
    attempt: job.attempt,
  };
}

const OWNER = statement('job_owner', 'SELECT org_id AS "orgId", job_type AS "jobType" FROM millrace.jobs WHERE id = $1::uuid');

/** Returns the org and the type of any job, or null. For doors that distinguish a job of another org from a missing one. */
export async function jobOwner(db: Queryable, id: string): Promise<{ orgId: string; jobType: string } | null> {
  const [owner] = await run<{ orgId: string; jobType: string }>(db, OWNER, [id]);
  return owner ?? null;
}
