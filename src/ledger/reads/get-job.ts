import type { Job } from '../../core/job.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { RESULT_COLUMNS, type ResultRow, toJobWithResult } from './job-result.ts';
import { JOB_COLUMNS, JOB_JOINS } from './job-row.ts';

// Found by id alone: the planner must not walk the index that the org leads.
const GET = statement(
  'get_jobs',
  `SELECT ${JOB_COLUMNS}, ${RESULT_COLUMNS}
   FROM unnest($2::uuid[]) WITH ORDINALITY AS w(id, ord)
   JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = $1::uuid) IS TRUE ${JOB_JOINS}
   ORDER BY w.ord`,
);

const GET_OF_ORGS = statement(
  'get_jobs_of_orgs',
  `SELECT ${JOB_COLUMNS}, ${RESULT_COLUMNS}, w.ord
   FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS w(org_id, id, ord)
   JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = w.org_id) IS TRUE ${JOB_JOINS}`,
);

/** A job of another org is as absent as one that never was. */
export async function getJob(db: Queryable, orgId: string, id: string): Promise<Job | null> {
  const [job] = await getJobs(db, orgId, [id]);
  return job ?? null;
}

/** The jobs that exist, in the order of `ids`. */
export async function getJobs(db: Queryable, orgId: string, ids: readonly string[]): Promise<Job[]> {
  const rows = await run<ResultRow>(db, GET, [orgId, uuidArray(ids)]);
  return rows.map(toJobWithResult);
}

export type WantedJob = { readonly orgId: string; readonly id: string };

/** One answer for each that is wanted, in order; each is looked for in its own org alone. */
export async function getJobsOfOrgs(db: Queryable, wanted: readonly WantedJob[]): Promise<(Job | null)[]> {
  const rows = await run<ResultRow & { ord: number }>(db, GET_OF_ORGS, [
    uuidArray(wanted.map(({ orgId }) => orgId)),
    uuidArray(wanted.map(({ id }) => id)),
  ]);
  const jobs: (Job | null)[] = wanted.map(() => null);
  for (const row of rows) jobs[Number(row.ord) - 1] = toJobWithResult(row);
  return jobs;
}
