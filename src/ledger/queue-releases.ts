import { type Queryable, run, statement } from './statement.ts';

const QUEUE = statement('queue_releases', 'INSERT INTO millrace.releases (org_id, seq) SELECT $1, unnest($2::int8[])');

/** Has the releaser look again at the jobs that wait for these. */
export async function queueReleases(db: Queryable, params: { orgId: string; seqs: readonly number[] }): Promise<void> {
  await run(db, QUEUE, [params.orgId, params.seqs]);
}
