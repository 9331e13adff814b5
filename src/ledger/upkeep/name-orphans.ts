import { type Queryable, run, statement } from '../driver/statement.ts';
import { arraysOf } from './take-releases.ts';

// Apart from the search for orphans, which every process repeats each second and which mostly finds none.
const NAME = statement(
  'name_orphans',
  `SELECT j.seq, coalesce(j.correlation_id, j.request_id) AS "correlationId", j.project_id AS "projectId"
   FROM unnest($1::uuid[], $2::int8[]) AS o(org_id, seq) CROSS JOIN LATERAL (
     SELECT * FROM millrace.jobs j WHERE j.org_id = o.org_id AND j.seq = o.seq OFFSET 0) j`,
);

/** What a job belongs to. */
export type Belonging = { correlationId: string | null; projectId: string | null };

/** Adds what log lines say about orphans, and their rescue does not need. */
export async function nameOrphans<O extends { orgId: string; seq: number }>(
  db: Queryable,
  orphans: readonly O[],
): Promise<(O & Belonging)[]> {
  const refs = orphans.map(({ orgId, seq }) => ({ org_id: orgId, seq }));
  const rows = await run<Belonging & { seq: number }>(db, NAME, arraysOf(refs));
  const found = new Map(rows.map((row) => [row.seq, row]));
  return orphans.map((orphan) => ({ correlationId: null, projectId: null, ...orphan, ...found.get(orphan.seq) }));
}
