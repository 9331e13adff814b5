import { actsOnDeadLetters } from '../../core/governance/operation.ts';
import type { JobState } from '../../core/states.ts';
import { type DeadLetterFilter, type FilterParams, filterParams, MATCHES } from '../dead-letters/read-entries.ts';
import { textArray } from '../driver/binary-array.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import { type JobFilter, searchJobs } from '../search/search-jobs.ts';
import type { Operation } from './operation-row.ts';

/** How many entries one step looks at. */
const LOOKED = 5_000;
const JOBS = 1_000;

type Params = FilterParams & { id: string; looked: number };
type Listed = { matching: number; is_listed: boolean };

// An entry whose job died after the operation was created does not belong to it: the operation may have replayed it itself.
const LIST_ENTRIES = namedStatement<Params, Listed>(
  'list_operation_entries',
  `WITH o AS MATERIALIZED (
     SELECT id, cursor_seq, created_at, matching FROM millrace.operations WHERE id = $id::uuid
   ), looked AS MATERIALIZED (
     SELECT d.* FROM millrace.dead_letters d WHERE d.org_id = $orgId::uuid AND d.seq > (SELECT cursor_seq FROM o) ORDER BY d.seq LIMIT $looked::int4
   ), added AS (
     INSERT INTO millrace.operation_items (operation_id, n, job_id)
     SELECT $id::uuid, (SELECT matching FROM o) + row_number() OVER (ORDER BY d.seq)::int4, d.job_id::text FROM looked d
     WHERE d.status = 'open' AND d.failed_at <= (SELECT created_at FROM o) AND ${MATCHES} RETURNING 1
   )
   UPDATE millrace.operations SET matching = matching + (SELECT count(*) FROM added),
     cursor_seq = coalesce((SELECT max(seq) FROM looked), cursor_seq), is_listed = (SELECT count(*) FROM looked) < $looked::int4
   WHERE id = $id::uuid RETURNING matching, is_listed`,
);

const ADD_JOBS = statement(
  'add_operation_jobs',
  `WITH added AS (
     INSERT INTO millrace.operation_items (operation_id, n, job_id)
     SELECT o.id, o.matching + row_number() OVER (ORDER BY u.n)::int4, u.job_id
     FROM millrace.operations o CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS u(job_id, n) WHERE o.id = $1::uuid
     ON CONFLICT (operation_id, job_id) DO NOTHING RETURNING 1
   )
   UPDATE millrace.operations SET matching = matching + (SELECT count(*) FROM added), cursor = $3::text, is_listed = $3::text IS NULL
   WHERE id = $1::uuid RETURNING matching, is_listed`,
);

const CURSOR = statement('operation_cursor', 'SELECT cursor FROM millrace.operations WHERE id = $1::uuid');

/** Adds the next jobs that match to an operation, in the transaction that has locked it. */
export async function listJobs(db: Queryable, operation: Operation): Promise<{ matching: number; isListed: boolean }> {
  const [row] = actsOnDeadLetters(operation.action) ? await listEntries(db, operation) : await listFound(db, operation);
  return { matching: row?.matching ?? 0, isListed: row?.is_listed ?? true };
}

function listEntries(db: Queryable, operation: Operation): Promise<Listed[]> {
  const filter = operation.filter as DeadLetterFilter;
  return runNamed(db, LIST_ENTRIES, { ...filterParams(operation, filter), id: operation.id, looked: LOOKED });
}

async function listFound(db: Queryable, operation: Operation): Promise<Listed[]> {
  const [at] = await run<{ cursor: string | null }>(db, CURSOR, [operation.id]);
  const page = { cursor: at?.cursor ?? null, limit: JOBS, total: false };
  const { jobs, nextCursor } = await searchJobs(db, operation, storedFilter(operation), page);
  return run<Listed>(db, ADD_JOBS, [operation.id, textArray(jobs.map(({ id }) => id)), nextCursor]);
}

/** Times are text in the stored form. Jobs that were submitted after the operation was created do not belong to it. */
function storedFilter({ filter, createdAt }: Operation): JobFilter {
  const stored = (filter ?? {}) as { states?: JobState[]; createdAfter?: string; createdBefore?: string; updatedAfter?: string };
  const { createdAfter, createdBefore, updatedAfter, ...rest } = stored;
  const latest = new Date(createdAt.getTime() + 1);
  const before = createdBefore === undefined ? latest : new Date(createdBefore);
  return {
    ...rest,
    createdBefore: before < latest ? before : latest,
    ...(createdAfter === undefined ? {} : { createdAfter: new Date(createdAfter) }),
    ...(updatedAfter === undefined ? {} : { updatedAfter: new Date(updatedAfter) }),
  };
}
