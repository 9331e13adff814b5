import type pg from 'pg';
import { int8Array, uuidArray } from '../driver/binary-array.ts';
import { inTransaction } from '../driver/database.ts';
import { isOverlong, isUnavailable, type Queryable, run, type Statement, statement } from '../driver/statement.ts';

export type JobRef = { org_id: string; seq: number };

export type Release = JobRef & {
  id: number;
  /** The dependents up to this one have been checked. */
  after_seq: number;
  failures: number;
};

/** A release that failed even alone. It is retried later. */
export type FailedRelease = { orgId: string; seq: number; error: unknown };

export const FIRST_ORG = '00000000-0000-0000-0000-000000000000';

// Every org with releases gets the same share of a turn, so a large backlog of one org does not delay the others. The recursion jumps
// from org to org in the index.
const takeText = (isNew: boolean): string => `WITH RECURSIVE found AS (
  (SELECT org_id FROM millrace.releases
   WHERE is_new = ${isNew} AND org_id > $1::uuid AND due_at <= statement_timestamp() ORDER BY org_id LIMIT 1)
  UNION ALL
  SELECT n.org_id FROM found f CROSS JOIN LATERAL (
    SELECT r.org_id FROM millrace.releases r
    WHERE r.is_new = ${isNew} AND r.org_id > f.org_id AND r.due_at <= statement_timestamp() ORDER BY r.org_id LIMIT 1) n
), orgs AS MATERIALIZED (
  SELECT org_id FROM found LIMIT $2::int4
)
SELECT o.org_id, r.id, r.seq, r.after_seq, r.failures FROM orgs o LEFT JOIN LATERAL (
  SELECT * FROM millrace.releases r WHERE r.is_new = ${isNew} AND r.org_id = o.org_id AND r.due_at <= statement_timestamp()
  ORDER BY r.due_at, r.id LIMIT greatest(1, $2::int4 / (SELECT count(*) FROM orgs)) FOR UPDATE SKIP LOCKED) r ON true`;

const TAKE = {
  new: statement('take_new_releases', takeText(true)),
  old: statement('take_releases', takeText(false)),
} as const;

const TAKE_ONE = statement(
  'take_release',
  `SELECT org_id, id, seq, after_seq, failures FROM millrace.releases WHERE id = $1::int8 FOR UPDATE SKIP LOCKED`,
);

/**
 * When to retry failed work: first after 100 ms, with a growing delay of up to a minute. It uses real time and not the time of jobs,
 * which stands still in tests.
 */
export const laterText = (failures: string): string =>
  `statement_timestamp() + least(interval '1 minute', interval '50 ms' * 2 ^ least(${failures}, 12))`;

const PUT_OFF = statement(
  'put_off_release',
  `UPDATE millrace.releases SET failures = failures + 1, due_at = ${laterText('failures + 1')} WHERE id = $1::int8`,
);

export type Turn = {
  kind: keyof typeof TAKE;
  limit: number;
  /** The turn starts after this org. */
  afterOrg: string;
};

export type TurnResult<T> = {
  results: T[];
  taken: number;
  failed: FailedRelease[];
  /** The next turn starts after this org. */
  nextOrg: string;
  /** Another turn may find more. */
  again: boolean;
};

/**
 * Takes some releases of each org and processes them in one transaction. If that fails, each is processed alone, and those that fail
 * again are postponed. So a release that cannot be processed delays only itself.
 */
export async function takeTurn<T>(
  db: pg.Pool,
  { kind, limit, afterOrg }: Turn,
  work: (client: Queryable, releases: readonly Release[]) => Promise<T>,
): Promise<TurnResult<T>> {
  let taken: Release[] = [];
  let orgs: string[] = [];
  const failed: FailedRelease[] = [];
  let results: T[];
  try {
    results = await inTransaction(db, async (client) => {
      const rows = await run<Release | (JobRef & { id: null })>(client, TAKE[kind] as Statement, [afterOrg, limit]);
      orgs = rows.map((row) => row.org_id);
      taken = rows.filter((row) => row.id !== null);
      return taken.length === 0 ? [] : [await work(client, taken)];
    });
  } catch (error) {
    if (taken.length === 0 || isAway(error)) throw error;
    results = await workAlone(db, taken, work, failed);
  }
  const isEnd = new Set(orgs).size < limit;
  return {
    results,
    taken: taken.length,
    failed,
    nextOrg: isEnd ? FIRST_ORG : (orgs.at(-1) as string),
    again: taken.length >= limit || !isEnd || (afterOrg !== FIRST_ORG && isEnd),
  };
}

async function workAlone<T>(
  db: pg.Pool,
  taken: readonly Release[],
  work: (client: Queryable, releases: readonly Release[]) => Promise<T>,
  failed: FailedRelease[],
): Promise<T[]> {
  const results: T[] = [];
  for (const { id, org_id: orgId, seq } of taken) {
    try {
      const result = await inTransaction(db, async (client) => {
        const releases = await run<Release>(client, TAKE_ONE, [id]);
        return releases.length === 0 ? null : { of: await work(client, releases) };
      });
      if (result !== null) results.push(result.of);
    } catch (error) {
      if (isAway(error)) throw error;
      failed.push({ orgId, seq, error });
      await run(db, PUT_OFF, [id]);
    }
  }
  return results;
}

/** Whether the database is unreachable. A statement that took too long is the fault of its input instead. */
const isAway = (error: unknown): boolean => isUnavailable(error) && !isOverlong(error);

export const arraysOf = (jobs: readonly JobRef[]): [Buffer, Buffer] => [
  uuidArray(jobs.map((job) => job.org_id)),
  int8Array(jobs.map((job) => job.seq)),
];
