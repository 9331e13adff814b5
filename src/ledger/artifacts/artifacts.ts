import type { Artifact, ArtifactPurpose, ObjectPlace } from '../../core/artifact.ts';
import type { Owner } from '../../core/owner.ts';
import { invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import { sealOf } from '../driver/seal.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** An artifact whose bytes are about to be stored. */
export type NewArtifact = {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly jobId: string | null;
  readonly attempt: number | null;
  readonly name: string;
  readonly contentType: string;
  readonly purpose: ArtifactPurpose | null;
  readonly place: ObjectPlace;
  readonly createdBy: string;
};

/** How long an upload may take. Later its bytes are removed, and its end is refused. */
const GIVEN_UP_AFTER = `interval '1 day'`;

const COLUMNS = `a.id, a.org_id AS "orgId", a.project_id AS "projectId", a.job_id AS "jobId", a.attempt, a.name, a.content_type AS "contentType",
  a.purpose, a.size::float8 AS size, encode(a.sha256, 'hex') AS sha256, a.created_at AS "createdAt", a.expires_at AS "expiresAt"`;

const IS_VISIBLE = `a.state = 'stored' AND a.expires_at > millrace.clock()`;

const BEGIN = statement(
  'begin_artifact',
  `INSERT INTO millrace.artifacts (id, org_id, project_id, job_id, attempt, state, name, content_type, purpose, bucket, object_key, created_by, created_at, expires_at)
   VALUES ($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::int4, 'uploading', $6, $7, $8, $9, $10, $11, millrace.clock(), millrace.clock() + ${GIVEN_UP_AFTER})`,
);

/** Notes an upload before its first byte is stored, so that the sweeper finds the object if this process dies. */
export async function beginArtifact(db: Queryable, artifact: NewArtifact): Promise<void> {
  const { id, orgId, projectId, jobId, attempt, name, contentType, purpose, place, createdBy } = artifact;
  await run(db, BEGIN, [id, orgId, projectId, jobId, attempt, name, contentType, purpose, place.bucket, place.key, createdBy]);
}

export type StoredFacts = { readonly id: string; readonly size: number; readonly sha256: string; readonly retentionMs: number };

const SHOW = `state = 'stored', size = $2::int8, sha256 = decode($3, 'hex'), created_at = date_trunc('milliseconds', millrace.clock()),
     expires_at = date_trunc('milliseconds', millrace.clock() + $4::float8 * interval '1 ms')`;

const FINISH = statement(
  'finish_artifact',
  `UPDATE millrace.artifacts a SET ${SHOW} WHERE a.id = $1::uuid AND a.state = 'uploading' RETURNING ${COLUMNS}`,
);

/** Shows an artifact to readers. Null: the upload took too long and was given up. */
export async function finishArtifact(db: Queryable, { id, size, sha256, retentionMs }: StoredFacts): Promise<Artifact | null> {
  const [row] = await run<Artifact>(db, FINISH, [id, size, sha256, retentionMs]);
  return row ?? null;
}

// A later file of a job with the same name takes the place of an earlier one, so that an attempt that runs again leaves one file. The
// caller holds the job, so that two files of a name do not miss each other.
const FINISH_OF_JOB = statement(
  'finish_artifact_of_job',
  `WITH shown AS (
     UPDATE millrace.artifacts a SET ${SHOW} WHERE a.id = $1::uuid AND a.state = 'uploading' RETURNING a.*
   ), replaced AS (
     UPDATE millrace.artifacts old SET state = 'removed', expires_at = millrace.clock() FROM shown s
     WHERE old.org_id = s.org_id AND old.job_id = s.job_id AND old.name = s.name AND old.id <> s.id AND old.state = 'stored'
   )
   SELECT ${COLUMNS} FROM shown a`,
);

export async function finishArtifactOfJob(db: Queryable, { id, size, sha256, retentionMs }: StoredFacts): Promise<Artifact | null> {
  const [row] = await run<Artifact>(db, FINISH_OF_JOB, [id, size, sha256, retentionMs]);
  return row ?? null;
}

const DISCARD = statement(
  'discard_artifact',
  `UPDATE millrace.artifacts SET state = 'removed', expires_at = millrace.clock() WHERE id = $1::uuid AND state = 'uploading' RETURNING 1 AS one`,
);

/** Gives up an upload. Returns whether its object may be deleted: false if it was stored after all. */
export async function discardArtifact(db: Queryable, id: string): Promise<boolean> {
  return (await run(db, DISCARD, [id])).length > 0;
}

const FIND = statement(
  'find_artifact',
  `SELECT ${COLUMNS}, a.bucket, a.object_key AS key FROM millrace.artifacts a WHERE a.id = $1::uuid AND ${IS_VISIBLE}`,
);

export type FoundArtifact = { readonly artifact: Artifact; readonly place: ObjectPlace };

/** Returns an artifact of any org. The caller checks the owner, or a link. */
export async function findArtifact(db: Queryable, id: string): Promise<FoundArtifact | null> {
  const [row] = await run<Artifact & ObjectPlace>(db, FIND, [id]);
  if (row === undefined) return null;
  const { bucket, key, ...artifact } = row;
  return { artifact, place: { bucket, key } };
}

const LIST = statement(
  'list_artifacts',
  `SELECT ${COLUMNS} FROM millrace.artifacts a
   WHERE a.org_id = $1::uuid AND a.job_id = $2::uuid AND ($3::uuid IS NULL OR a.project_id = $3::uuid) AND ${IS_VISIBLE}
     AND ($4::timestamptz IS NULL OR (a.created_at, a.id) > ($4::timestamptz, $5::uuid))
   ORDER BY a.created_at, a.id LIMIT $6::int4`,
);

export type ArtifactPage = { readonly artifacts: Artifact[]; readonly nextCursor: string | null };

/** The artifacts of a job, oldest first. */
export async function listArtifacts(
  db: Queryable,
  owner: Owner,
  { jobId, limit, cursor }: { jobId: string; limit: number; cursor: string | null },
): Promise<ArtifactPage> {
  const scope = { list: 'ARTIFACTS', orgId: owner.orgId, filter: { jobId, projectId: owner.projectId } } as const;
  const seal = await sealOf(db);
  const [at, id] = cursor === null ? [null, null] : readPageCursor(seal, scope, cursor);
  if (cursor !== null && (typeof at !== 'string' || typeof id !== 'string')) throw invalidCursor();
  const rows = await run<Artifact>(db, LIST, [owner.orgId, jobId, owner.projectId, at, id, limit + 1]);
  const artifacts = rows.slice(0, limit);
  const last = artifacts.at(-1);
  if (rows.length <= limit || last === undefined) return { artifacts, nextCursor: null };
  return { artifacts, nextCursor: writePageCursor(seal, scope, [last.createdAt.toISOString(), last.id]) };
}
