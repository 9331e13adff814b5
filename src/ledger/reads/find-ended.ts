import { TERMINAL_STATES } from '../../core/states.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { WantedJob } from './get-job.ts';

// Looks up each job by id and reads only its state. The caller then reads the few jobs that have ended.
const FIND = statement(
  'find_ended',
  `SELECT w.ord
   FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS w(org_id, id, ord)
   LEFT JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = w.org_id) IS TRUE
   WHERE j.id IS NULL OR j.state IN (${TERMINAL_STATES.map((state) => `'${state}'`).join(', ')})`,
);

/** Returns the positions in `wanted` of jobs that have ended or do not exist in their org. */
export async function findEnded(db: Queryable, wanted: readonly Pick<WantedJob, 'orgId' | 'id'>[]): Promise<number[]> {
  const rows = await run<{ ord: number }>(db, FIND, [uuidArray(wanted.map(({ orgId }) => orgId)), uuidArray(wanted.map(({ id }) => id))]);
  return rows.map(({ ord }) => Number(ord) - 1);
}
