import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';

export type IngestKey = { readonly orgId: string; readonly jobType: string; readonly key: string };

/** The job that a key belongs to, with what its submission returned. */
export type KeyedJob = {
  readonly jobId: string;
  readonly fingerprint: string;
  readonly bucket: string;
  readonly resourceCount: number;
};

const FIND = statement(
  'find_ingest_key',
  `SELECT k.job_id AS "jobId", k.fingerprint, i.bucket, i.resource_count AS "resourceCount"
   FROM millrace.ingest_keys k JOIN millrace.ingest_jobs i ON i.id = k.job_id
   WHERE k.org_id = $1::uuid AND k.job_type = $2 AND k.key = $3 AND k.expires_at > millrace.clock()`,
);

type Claim = IngestKey & { jobId: string; fingerprint: string; windowMs: number };

// Waits for a transaction that writes the same key. A key whose window is over belongs to the new job.
const CLAIM = namedStatement<Claim, { job_id: string }>(
  'claim_ingest_key',
  `INSERT INTO millrace.ingest_keys AS k (org_id, job_type, key, job_id, fingerprint, first_seen_at, expires_at)
   SELECT $orgId::uuid, $jobType::text, $key::text, $jobId::uuid, $fingerprint::text, t.now, t.now + $windowMs::float8 * interval '1 ms'
   FROM (SELECT millrace.clock() AS now) t
   ON CONFLICT (org_id, job_type, key) DO UPDATE SET job_id = excluded.job_id, fingerprint = excluded.fingerprint,
     first_seen_at = excluded.first_seen_at, expires_at = excluded.expires_at
   WHERE k.expires_at <= excluded.first_seen_at
   RETURNING job_id`,
);

/** Returns null if no job has the key, or if its window is over. */
export async function findIngestKey(db: Queryable, { orgId, jobType, key }: IngestKey): Promise<KeyedJob | null> {
  return (await run<KeyedJob>(db, FIND, [orgId, jobType, key]))[0] ?? null;
}

/** Returns false if the key belongs to another job. Call it in the transaction that writes the job. */
export async function claimIngestKey(db: Queryable, claim: Claim): Promise<boolean> {
  return (await runNamed(db, CLAIM, claim)).length === 1;
}
