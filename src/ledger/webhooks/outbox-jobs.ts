import type { OutboxJob, OutboxTransition } from '../../core/delivery-match.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { FailureCategory } from '../../core/failure.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import { int8Array, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { ASSIGNED_MS } from '../reads/job-history.ts';

const JOBS = statement(
  'outbox_jobs',
  `SELECT j.org_id AS "orgId", j.seq, j.id AS "jobId", j.job_type AS "jobType", j.max_attempts AS "maxAttempts",
     j.callback_url AS "callbackUrl", j.record_ids AS "recordIds", p.body->>'profile' AS profile,
     CASE WHEN j.job_type = '${EXECUTION_TYPE}' THEN coalesce(j.payload->>'work_kind', j.tags->>'work_kind') END AS scenario,
     CASE WHEN j.job_type = '${EXECUTION_TYPE}' THEN coalesce(j.payload->>'type', j.tags->>'fr_type') END AS "executionType"
   FROM unnest($1::uuid[], $2::int8[]) AS i(org_id, seq)
   JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq JOIN millrace.policies p ON p.id = j.policy_id
   WHERE j.callback_url IS NOT NULL OR j.org_id = ANY ($3::uuid[])`,
);

// Each record is opened once for all its jobs. The planner cannot know how many jobs a record has, and a join would open the record for
// each of them (10 000 jobs: cancelled after 30 s; with this text: 1 s in all). IS TRUE keeps the planner from joining the list of
// jobs.
const HISTORIES = statement(
  'outbox_histories',
  `SELECT e.org_id, e.job_seq, e.n, e.txid::text::int8 AS txid, e.from_state, e.to_state, e.at, e.reason, e.attempt,
     e.to_state = 'cancelled' AND coalesce((e.detail->>'claimed')::boolean, false) AS was_claimed,
     ${ASSIGNED_MS} AS assigned_ms, e.detail->>'category' AS category, e.detail->>'code' AS code
   FROM millrace.events e WHERE e.record_id = ANY ($1::int8[]) AND (e.job_seq IN (SELECT unnest($2::int8[]))) IS TRUE`,
);

export type OutboxRow = Omit<OutboxJob, 'history'> & { recordIds: number[] };

type EventRow = {
  org_id: string;
  job_seq: number;
  n: number;
  txid: number;
  from_state: JobState | null;
  to_state: JobState;
  at: Date | string;
  reason: Reason;
  attempt: number;
  was_claimed: boolean;
  assigned_ms: number | null;
  category: FailureCategory | null;
  code: string | null;
};

export type JobKey = { readonly orgId: string; readonly seq: number };

/** Returns the jobs that may have targets, each with its remaining history. */
export async function outboxJobs(db: Queryable, keys: readonly JobKey[], orgsWithWebhooks: readonly string[]): Promise<OutboxJob[]> {
  return withHistories(db, await outboxRows(db, keys, orgsWithWebhooks));
}

/** Like `outboxJobs`, but without the histories, which `withHistories` adds. So a caller can first see how long they are. */
export function outboxRows(db: Queryable, keys: readonly JobKey[], orgsWithWebhooks: readonly string[]): Promise<OutboxRow[]> {
  return run<OutboxRow>(db, JOBS, [
    uuidArray(keys.map(({ orgId }) => orgId)),
    int8Array(keys.map(({ seq }) => seq)),
    uuidArray(orgsWithWebhooks),
  ]);
}

export async function withHistories(db: Queryable, rows: readonly OutboxRow[]): Promise<OutboxJob[]> {
  const histories = await historiesOf(db, rows);
  return rows.map(({ recordIds: _, ...job }) => ({ ...job, history: histories.get(`${job.orgId}:${job.seq}`) ?? [] }));
}

async function historiesOf(db: Queryable, jobs: readonly OutboxRow[]): Promise<Map<string, OutboxTransition[]>> {
  if (jobs.length === 0) return new Map();
  const records = new Set(jobs.flatMap(({ recordIds }) => recordIds.map(Number)));
  const seqs = jobs.map(({ seq }) => seq);
  const rows = await run<EventRow>(db, HISTORIES, [int8Array([...records]), int8Array(seqs)]);
  const wanted = new Map<string, OutboxTransition[]>(jobs.map(({ orgId, seq }) => [`${orgId}:${seq}`, []]));
  for (const row of rows) wanted.get(`${row.org_id}:${row.job_seq}`)?.push(toTransition(row));
  for (const history of wanted.values()) history.sort((a, b) => a.n - b.n);
  return wanted;
}

const toTransition = (row: EventRow): OutboxTransition => ({
  n: row.n,
  txid: row.txid,
  from: row.from_state,
  to: row.to_state,
  at: new Date(row.at),
  reason: row.reason,
  attempt: row.attempt,
  actor: null,
  failure: row.category === null || row.code === null ? null : { category: row.category, code: row.code },
  ...(row.was_claimed ? { wasClaimed: true } : {}),
  ...(row.reason === 'attempts_exhausted' && row.category === 'TIMEOUT' ? { timedOut: true } : {}),
  ...(row.assigned_ms === null ? {} : { assignedMs: row.assigned_ms }),
});
