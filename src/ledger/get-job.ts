import type { Job } from '../core/job.ts';
import { uuidArray } from './binary-array.ts';
import { RESULT_COLUMNS, type ResultRow, toJobWithResult } from './job-result.ts';
import { JOB_COLUMNS, JOB_JOINS } from './job-row.ts';
import { type Queryable, run, statement } from './statement.ts';

// Found by id alone: the planner must not walk the index that the org leads.
const GET = statement(
  'get_jobs',
  `SELECT ${JOB_COLUMNS}, ${RESULT_COLUMNS}
   FROM unnest($2::uuid[]) WITH ORDINALITY AS w(id, ord)
   JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = $1::uuid) IS TRUE ${JOB_JOINS}
   ORDER BY w.ord`,
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
