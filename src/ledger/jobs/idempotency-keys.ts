import type { NewJob } from '../../core/submission.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** The type of job `j` that its key was submitted with. The key keeps this type when the job's type is changed. */
export const keyedTypeText = (j: string): string => `coalesce(${j}.keyed_type, ${j}.job_type)`;

/** The SQL of the scope of a key within its org: the job type, and the project if there is one. A type has no line break. */
export const keyScopeText = (jobType: string, projectId: string): string =>
  `CASE WHEN ${projectId} IS NULL THEN ${jobType} ELSE ${jobType} || chr(10) || ${projectId}::text END`;

/** As in SQL. */
export const keyScope = (type: string, projectId: string | null): string => (projectId === null ? type : `${type}\n${projectId}`);

/** The scope of the key of a new job. */
export const keyScopeOf = ({ type, envelope }: Pick<NewJob, 'type' | 'envelope'>): string => keyScope(type, envelope?.projectId ?? null);

const FIND = statement(
  'find_keys',
  `SELECT w.ord::int4 AS ord, k.job_id, k.fingerprint
   FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS w(scope, key, ord)
   JOIN millrace.idempotency_keys k ON k.org_id = $1::uuid AND k.scope = w.scope AND k.key = w.key
   WHERE k.expires_at > millrace.clock()`,
);

export type KeyedJob = { readonly jobId: string; readonly fingerprint: string };

export type SoughtKey = { readonly scope: string; readonly key: string };

/** Returns the job of a key and the fingerprint of its request, or null. */
export async function findKey(db: Queryable, orgId: string, sought: SoughtKey): Promise<KeyedJob | null> {
  const [found] = await findKeys(db, orgId, [sought]);
  return found ?? null;
}

type Row = { ord: number; job_id: string; fingerprint: string };

/** Returns one result for each key, in order. */
export async function findKeys(db: Queryable, orgId: string, sought: readonly SoughtKey[]): Promise<(KeyedJob | null)[]> {
  const rows = await run<Row>(db, FIND, [orgId, sought.map(({ scope }) => scope), sought.map(({ key }) => key)]);
  const found: (KeyedJob | null)[] = sought.map(() => null);
  for (const { ord, job_id, fingerprint } of rows) found[ord - 1] = { jobId: job_id, fingerprint };
  return found;
}
