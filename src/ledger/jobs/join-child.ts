import { type Queryable, run, statement } from '../driver/statement.ts';

// A spawn with an idempotency key may find a child of an earlier attempt. From then on the child belongs to the newer attempt.
const JOIN = statement(
  'join_child',
  `UPDATE millrace.jobs SET joined_by = $4::int8
   WHERE id = $2::uuid AND (org_id = $1::uuid) IS TRUE AND parent_seq = $3::int8 AND joins_parent AND joined_by IS DISTINCT FROM $4::int8`,
);

/** Lets the attempt with this lease fail unless the child completes. With a null lease, the outcome of the child does not matter. */
export async function joinChild(
  db: Queryable,
  { orgId, id, parentSeq, leaseSeq }: { orgId: string; id: string; parentSeq: number; leaseSeq: number | null },
): Promise<void> {
  await run(db, JOIN, [orgId, id, parentSeq, leaseSeq]);
}
