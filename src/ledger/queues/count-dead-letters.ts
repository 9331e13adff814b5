import { type Queryable, run, statement } from '../driver/statement.ts';

/** Counting stops here. */
const MOST = 1_000_000;

const COUNT = statement(
  'count_open_letters',
  `SELECT count(*)::int4 AS jobs FROM (
     SELECT FROM millrace.dead_letters WHERE status = 'open' AND ($1::uuid IS NULL OR org_id = $1::uuid) LIMIT ${MOST}) d`,
);

/** How many dead letters are open, of one org or of all. */
export async function countDeadLetters(db: Queryable, orgId: string | null): Promise<number> {
  return (await run<{ jobs: number }>(db, COUNT, [orgId]))[0]?.jobs ?? 0;
}
