import type { Owner } from '../../core/owner.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** A batch, by its id and its org. */
export type NamedBatch = { orgId: string; id: string };

const OPEN = statement(
  'open_batch',
  `WITH opened AS (
     INSERT INTO millrace.batches (id, org_id, project_id, created_at) VALUES ($1::uuid, $2::uuid, $3::uuid, millrace.clock())
     ON CONFLICT (id) DO NOTHING RETURNING id
   )
   SELECT true AS "isNew" FROM opened
   UNION ALL SELECT false FROM millrace.batches b WHERE b.id = $1::uuid AND b.org_id = $2::uuid AND ($3::uuid IS NULL OR b.project_id = $3::uuid)`,
);

/** Creates a batch, unless it exists. Returns null if the id belongs to a batch of another owner. */
export async function openBatch(db: Queryable, { orgId, projectId }: Owner, id: string): Promise<{ isNew: boolean } | null> {
  return (await run<{ isNew: boolean }>(db, OPEN, [id, orgId, projectId]))[0] ?? null;
}

const REACHES = statement(
  'reaches_batch',
  'SELECT FROM millrace.batches b WHERE b.id = $1::uuid AND b.org_id = $2::uuid AND ($3::uuid IS NULL OR b.project_id = $3::uuid)',
);

/** Whether the owner has such a batch. */
export const hasBatch = async (db: Queryable, { orgId, projectId }: Owner, id: string): Promise<boolean> =>
  (await run(db, REACHES, [id, orgId, projectId])).length > 0;

const FIND_PART = statement(
  'find_batch_part',
  'SELECT fingerprint FROM millrace.batch_parts WHERE batch_id = $1::uuid AND part = $2::int4',
);

/** Returns the fingerprint of a piece that is submitted already, or null. */
export async function findPart(db: Queryable, batchId: string, part: number): Promise<string | null> {
  const [found] = await run<{ fingerprint: string }>(db, FIND_PART, [batchId, part]);
  return found?.fingerprint ?? null;
}

// Runs in the transaction that wrote the jobs and after it, so it finds their numbers. A job that existed before, because a key was
// repeated, is found too. The planner must not scan the index that begins with the org. The row of the batch is locked, so that no piece
// is added after the batch was closed.
const ADD_PART = statement(
  'add_batch_part',
  `WITH batch AS MATERIALIZED (
     SELECT id, org_id FROM millrace.batches WHERE id = $1::uuid AND org_id = $2::uuid AND submitted_at IS NULL FOR SHARE
   )
   INSERT INTO millrace.batch_parts (batch_id, part, jobs, fingerprint, seqs)
   SELECT b.id, $3::int4, cardinality($5::uuid[]), $4::text, (
     SELECT coalesce(range_agg(int8range(j.seq, j.seq, '[]')), '{}') FROM unnest($5::uuid[]) AS u(id)
     CROSS JOIN LATERAL (SELECT j.seq FROM millrace.jobs j WHERE j.id = u.id AND (j.org_id = b.org_id) IS TRUE OFFSET 0) j)
   FROM batch b
   ON CONFLICT (batch_id, part) DO NOTHING RETURNING part`,
);

export type NewPart = NamedBatch & { part: number; fingerprint: string; jobIds: readonly string[] };

/** Returns false, and adds nothing, if the batch is closed or already has this piece. */
export async function addPart(db: Queryable, { id, orgId, part, fingerprint, jobIds }: NewPart): Promise<boolean> {
  return (await run(db, ADD_PART, [id, orgId, part, fingerprint, uuidArray(jobIds)])).length > 0;
}

const CLOSE = statement(
  'close_batch',
  `UPDATE millrace.batches SET submitted_at = millrace.clock() WHERE id = $1::uuid AND org_id = $2::uuid AND submitted_at IS NULL`,
);

/** All jobs of the batch are submitted. */
export async function closeBatch(db: Queryable, { id, orgId }: NamedBatch): Promise<void> {
  await run(db, CLOSE, [id, orgId]);
}
