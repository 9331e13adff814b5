import { type Queryable, run, statement } from '../driver/statement.ts';

// When to look again for rows that programs wrote although the org was gone.
const FIRST_SWEEP = `interval '1 hour'`;

const REMOVE_ORG = statement('remove_org', 'DELETE FROM millrace.orgs WHERE id = $1::uuid AND deleting_at IS NOT NULL RETURNING id');

const END = statement(
  'end_erasure',
  `UPDATE millrace.org_erasures SET ended_at = millrace.clock(), next_at = millrace.clock() + ${FIRST_SWEEP}, step = NULL, page = 0
   WHERE org_id = $1::uuid AND ended_at IS NULL
   RETURNING slug, requested_by AS "requestedBy", requested_at AS "requestedAt", rows_removed AS "rowsRemoved",
     jobs_removed AS "jobsRemoved", objects_removed AS "objectsRemoved"`,
);

export type Erasure = {
  readonly slug: string;
  readonly requestedBy: string | null;
  readonly requestedAt: Date;
  readonly rowsRemoved: number;
  readonly jobsRemoved: number;
  readonly objectsRemoved: number;
};

/** Removes the row of an org that has nothing left. Returns null if another process did. Call it in a transaction. */
export async function endErasure(client: Queryable, orgId: string): Promise<Erasure | null> {
  const [ended] = await run<Erasure>(client, END, [orgId]);
  if (ended === undefined) return null;
  await run(client, REMOVE_ORG, [orgId]);
  return ended;
}

const SWEPT = statement(
  'note_erasure_swept',
  `UPDATE millrace.org_erasures SET sweeps = sweeps + 1, next_at = millrace.clock() + CASE sweeps + 1 WHEN 1 THEN interval '1 day' ELSE interval '7 days' END,
     step = NULL, page = 0 WHERE org_id = $1::uuid AND ended_at IS NOT NULL AND sweeps < 2 RETURNING 1 AS one`,
);

const FORGET = statement('forget_erasure', 'DELETE FROM millrace.org_erasures WHERE org_id = $1::uuid AND ended_at IS NOT NULL');

/** Notes that an org that was removed before has no rows, and when to look again. After the third time it is forgotten. */
export async function noteSwept(db: Queryable, orgId: string): Promise<void> {
  if ((await run(db, SWEPT, [orgId])).length === 0) await run(db, FORGET, [orgId]);
}

const LATER = statement(
  'put_off_erasure',
  `UPDATE millrace.org_erasures SET next_at = millrace.clock() + $2::float8 * interval '1 ms'
   WHERE org_id = (SELECT org_id FROM millrace.org_erasures WHERE org_id = $1::uuid FOR UPDATE SKIP LOCKED)`,
);

/** Leaves the org for a moment, because something is held. Others go on meanwhile. */
export async function putOffErasure(db: Queryable, orgId: string, delayMs: number): Promise<void> {
  await run(db, LATER, [orgId, delayMs]);
}

const RUNNING = statement(
  'running_jobs_of_org',
  `SELECT DISTINCT j.id FROM (SELECT worker_id, unnest(seqs) AS seq FROM millrace.claims WHERE org_id = $1::uuid) c CROSS JOIN LATERAL (
     SELECT j.id FROM millrace.jobs j WHERE j.org_id = $1::uuid AND j.seq = c.seq AND j.worker_id = c.worker_id AND NOT EXISTS (
       SELECT FROM millrace.cancel_requests r WHERE r.org_id = j.org_id AND r.seq = j.seq) OFFSET 0) j
   LIMIT $2::int4`,
);

/** Jobs of the org that workers have and that were not asked to stop. */
export async function runningJobsOf(db: Queryable, orgId: string, limit: number): Promise<string[]> {
  return (await run<{ id: string }>(db, RUNNING, [orgId, limit])).map(({ id }) => id);
}
