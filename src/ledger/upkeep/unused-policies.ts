import { type Queryable, run, statement } from '../driver/statement.ts';

const LAST_USED_US = '(extract(epoch FROM last_used_at) * 1000000)::int8';

/** These statements read the real clock and not `millrace.clock()`, because the policy caches of processes expire by real time. */
const BEGIN = statement(
  'begin_policy_sweep',
  `UPDATE millrace.policy_sweeps SET begun_at = now()
   WHERE NOT begun_at BETWEEN now() - $1::float8 * interval '1 ms' AND now()
     AND (SELECT count(*) FROM (
       SELECT FROM millrace.policies WHERE last_used_at < now() - $2::float8 * interval '1 ms' LIMIT $3::int4) c) = $3::int4
   RETURNING 1 AS one`,
);

const CANDIDATES = statement(
  'unused_policy_candidates',
  `SELECT id, ${LAST_USED_US} AS us FROM millrace.policies WHERE last_used_at < now() - $1::float8 * interval '1 ms' ORDER BY last_used_at LIMIT $2::int4`,
);

const MARK = statement('mark_transaction', 'SELECT pg_current_xact_id()::text AS txid');

const SETTLED = statement(
  'transactions_since_mark',
  `SELECT pg_snapshot_xmin(s) > $1::text::xid8 AS is_settled, pg_snapshot_xmax(s) < $1::text::xid8 AS is_foreign
   FROM pg_current_snapshot() s`,
);

const WINDOW = statement(
  'policies_in_use',
  `WITH seen AS MATERIALIZED (
     SELECT org_id, seq, policy_id FROM millrace.jobs WHERE (org_id, seq) > ($1::uuid, $2::int8) ORDER BY org_id, seq LIMIT $3::int4
   )
   SELECT last.org_id AS "orgId", last.seq, (SELECT array_agg(DISTINCT policy_id) FROM seen) AS "policyIds"
   FROM (SELECT org_id, seq FROM seen ORDER BY org_id DESC, seq DESC LIMIT 1) last`,
);

const REMOVE = statement(
  'remove_policies',
  `DELETE FROM millrace.policies p USING unnest($1::int4[], $2::int8[]) AS c(id, us)
   WHERE p.id = c.id AND ${LAST_USED_US} = c.us RETURNING 1 AS one`,
);

export type SweepStart = { everyMs: number; unusedMs: number; minCandidates: number };

/** Whether this process should sweep: no process did so lately, and there are enough candidates to justify reading all jobs. */
export async function beginPolicySweep(db: Queryable, { everyMs, unusedMs, minCandidates }: SweepStart): Promise<boolean> {
  return (await run(db, BEGIN, [everyMs, unusedMs, minCandidates])).length > 0;
}

/** A policy, and when it was last used for new jobs, in microseconds as the database stores it. */
export type PolicyCandidate = readonly [id: number, lastUsedUs: number];

/** Returns policies that were not used for new jobs for this long. Existing jobs may still have them. */
export async function policyCandidates(db: Queryable, unusedMs: number, limit: number): Promise<PolicyCandidate[]> {
  const rows = await run<{ id: number; us: number | string }>(db, CANDIDATES, [unusedMs, limit]);
  return rows.map(({ id, us }) => [id, Number(us)]);
}

/** Returns a number below that of every transaction that writes from now on. */
export async function markTransaction(db: Queryable): Promise<string> {
  const [row] = await run<{ txid: string }>(db, MARK);
  return (row as { txid: string }).txid;
}

export type SinceMark = { is_settled: boolean; is_foreign: boolean };

/** `is_settled`: all transactions before the mark have ended. `is_foreign`: the mark does not come from this server. */
export async function sinceMark(db: Queryable, txid: string): Promise<SinceMark> {
  const [row] = await run<SinceMark>(db, SETTLED, [txid]);
  return row as SinceMark;
}

export type JobWindow = { orgId: string; seq: number; policyIds: number[] };

export const FIRST_WINDOW = { orgId: '00000000-0000-0000-0000-000000000000', seq: -1 };

/** Returns the policies of the next jobs after a position and the position to continue from, or null after the last job. */
export async function policiesInUse(db: Queryable, after: { orgId: string; seq: number }, limit: number): Promise<JobWindow | null> {
  const [row] = await run<JobWindow>(db, WINDOW, [after.orgId, after.seq, limit]);
  return row ?? null;
}

/** Removes the policies that were not used since. A use changes the row, so a step of the clock cannot hide it. */
export async function removePolicies(db: Queryable, candidates: readonly PolicyCandidate[]): Promise<number> {
  const values = [candidates.map(([id]) => id), candidates.map(([, us]) => us)];
  return (await run(db, REMOVE, values)).length;
}
