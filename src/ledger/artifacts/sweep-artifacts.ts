import type { ObjectPlace } from '../../core/artifact.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** An artifact that readers no longer see, and whose object may still exist. */
export type RemovedArtifact = ObjectPlace & { readonly id: string };

// Whoever takes a row has five minutes for it. A store that is down is tried again after that.
const TAKE = statement(
  'take_due_artifacts',
  `UPDATE millrace.artifacts a SET state = 'removed', expires_at = millrace.clock() + interval '5 minutes'
   WHERE a.id = ANY (ARRAY(
     SELECT d.id FROM millrace.artifacts d WHERE d.expires_at <= millrace.clock() ORDER BY d.expires_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED))
   RETURNING a.id, a.bucket, a.object_key AS key`,
);

/** Hides artifacts that have expired, and uploads that never ended, and returns where their objects are. */
export async function takeDueArtifacts(db: Queryable, limit: number): Promise<RemovedArtifact[]> {
  return run<RemovedArtifact>(db, TAKE, [limit]);
}

const HIDE = statement(
  'hide_artifacts_of_gone_orgs',
  `UPDATE millrace.artifacts a SET state = 'removed', expires_at = millrace.clock()
   WHERE a.id = ANY (ARRAY(
     SELECT g.id FROM millrace.artifacts g LEFT JOIN millrace.orgs o ON o.id = g.org_id AND o.deleting_at IS NULL
     WHERE g.state <> 'removed' AND o.id IS NULL LIMIT $1::int4 FOR UPDATE OF g SKIP LOCKED))
   RETURNING 1 AS one`,
);

/** Hides the artifacts of orgs that are deleted. Returns how many. */
export async function hideArtifactsOfGoneOrgs(db: Queryable, limit: number): Promise<number> {
  return (await run(db, HIDE, [limit])).length;
}

const FORGET = statement('forget_artifacts', `DELETE FROM millrace.artifacts WHERE id = ANY ($1::uuid[]) AND state = 'removed'`);

/** Removes the rows of artifacts whose objects are deleted. */
export async function forgetArtifacts(db: Queryable, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await run(db, FORGET, [uuidArray(ids)]);
}
