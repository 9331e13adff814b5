import type { Job, JobSummary } from '../../core/job.ts';
import { boolArray, uuidArray } from '../driver/binary-array.ts';
import { namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import { type ResultRow, resultColumns, withResult } from './job-result.ts';
import { JOB_COLUMNS, JOB_JOINS, type PayloadRow, payloadColumns, toJob, toJobWithPayload } from './job-row.ts';

/** The parts of a job that may be large. They are read only when they are asked for. */
export type JobParts = { readonly payload?: boolean; readonly result?: boolean };
export type WithPayload = JobParts & { readonly payload: true };

export type WantedJob = JobParts & { readonly orgId: string; readonly id: string };

type Params = { orgIds: Buffer; ids: Buffer; payloads: Buffer; results: Buffer };
type Row = PayloadRow & ResultRow & { ord: number };

// Jobs are found by id alone: the planner must not walk the index that the org leads.
const GET = namedStatement<Params, Row>(
  'get_jobs_of_orgs',
  `SELECT ${JOB_COLUMNS}, ${payloadColumns('w.payload')}, ${resultColumns('w.result')}, w.ord::int4 AS ord
   FROM unnest($orgIds::uuid[], $ids::uuid[], $payloads::bool[], $results::bool[]) WITH ORDINALITY AS w(org_id, id, payload, result, ord)
   JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = w.org_id) IS TRUE ${JOB_JOINS}`,
);

/** One entry for each job in `wanted`, in order. Each is looked up in its own org; null: the org has no such job. */
export async function getJobsOfOrgs(db: Queryable, wanted: readonly WantedJob[]): Promise<(JobSummary | null)[]> {
  const rows = await runNamed(db, GET, {
    orgIds: uuidArray(wanted.map(({ orgId }) => orgId)),
    ids: uuidArray(wanted.map(({ id }) => id)),
    payloads: boolArray(wanted.map(({ payload = false }) => payload)),
    results: boolArray(wanted.map(({ result = false }) => result)),
  });
  const jobs: (JobSummary | null)[] = wanted.map(() => null);
  for (const row of rows) {
    const { payload, result } = wanted[row.ord - 1] ?? {};
    const job = payload ? toJobWithPayload(row) : toJob(row);
    jobs[row.ord - 1] = result ? withResult(job, row) : job;
  }
  return jobs;
}

/** Null: the org has no such job. */
export async function getJob(db: Queryable, orgId: string, id: string, parts: WithPayload): Promise<Job | null>;
export async function getJob(db: Queryable, orgId: string, id: string, parts?: JobParts): Promise<JobSummary | null>;
export async function getJob(
  db: Queryable,
  orgId: string,
  id: string,
  parts: JobParts = {},
): Promise<JobSummary | null> {
  const [job] = await getJobsOfOrgs(db, [{ orgId, id, ...parts }]);
  return job ?? null;
}

/** The jobs that exist, with their payloads, in the order of `ids`. */
export async function getJobs(db: Queryable, orgId: string, ids: readonly string[]): Promise<Job[]> {
  const jobs = await getJobsOfOrgs(
    db,
    ids.map((id) => ({ orgId, id, payload: true })),
  );
  return jobs.filter((job) => job !== null) as Job[];
}
