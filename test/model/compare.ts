/** Looks whether the ledger is where the model says. */
import { expect } from 'vitest';
import { ownedJobs } from '../../src/ledger/attempts/owned-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import type { Model } from './model.ts';
import { hasEnded, isHeldBy, type ModelJob, mayRun, permanentFailuresOf } from './model-job.ts';
import type { System } from './system.ts';

const ROWS = `SELECT j.id, j.state, j.attempts_started AS attempts, j.max_attempts AS "maxAttempts", coalesce(j.permanent_failures, 0)::int4 AS "permanentFailures", j.round,
    j.lease_seq AS "leaseSeq", j.worker_id AS holder, j.is_held AS held, j.priority, j.event_count AS events, cardinality(j.record_ids) AS records,
    j.state = 'scheduled' AND j.worker_id IS NOT NULL AND j.claimed_at IS NULL AS "mayRun",
    (extract(epoch FROM j.started_at) * 1000)::int8 AS "startedAtMs",
    (extract(epoch FROM j.run_at) * 1000)::int8 AS "runAtMs", (extract(epoch FROM j.lifetime_deadline) * 1000)::int8 AS "deadlineMs",
    CASE WHEN j.completed_at IS NULL THEN CASE c.is_forced WHEN true THEN 'force' WHEN false THEN 'soft' END END AS cancel,
    p.percent, j.payload, CASE WHEN k.seq IS NOT NULL THEN json_build_object('text', convert_from(k.state, 'UTF8'), 'leaseSeq', k.lease_seq) END
      AS checkpoint
  FROM millrace.jobs j LEFT JOIN millrace.cancel_requests c ON c.org_id = j.org_id AND c.seq = j.seq
  LEFT JOIN millrace.progress p ON p.org_id = j.org_id AND p.seq = j.seq
  LEFT JOIN millrace.checkpoints k ON k.org_id = j.org_id AND k.seq = j.seq
  WHERE j.org_id = $1 ORDER BY j.seq`;

const EVENTS = `SELECT j.id, e.from_state AS "from", e.to_state AS "to", e.reason, e.lease_seq AS "leaseSeq", e.attempt, e.round,
    e.worker_id AS "workerId", coalesce((e.detail->>'presumed')::boolean, false) AS presumed, (extract(epoch FROM e.at) * 1000)::int8 AS "atMs"
  FROM millrace.events e JOIN millrace.jobs j ON j.org_id = e.org_id AND j.seq = e.job_seq
  WHERE e.org_id = $1 ORDER BY e.job_seq, e.n`;

function rowOf(job: ModelJob) {
  const { id, state, attempts, maxAttempts, round, leaseSeq, holder, held, priority } = job;
  const { runAtMs, deadlineMs, startedAtMs, percent, checkpoint, payload } = job;
  const cancel = hasEnded(job) ? null : job.cancel;
  const events = job.history.length;
  const permanentFailures = permanentFailuresOf(job);
  const row = { id, state, attempts, maxAttempts, permanentFailures, round, leaseSeq, holder, held, priority };
  const records = events;
  return {
    ...row,
    events,
    records,
    mayRun: mayRun(job),
    startedAtMs,
    runAtMs,
    deadlineMs,
    cancel,
    percent,
    checkpoint,
    payload,
  };
}

export async function compareRows(model: Model, { ledger, orgId }: System): Promise<void> {
  const { rows } = await ledger.db.api.query({ name: 'model_rows', text: ROWS, values: [orgId] });
  expect(rows, 'the rows of the jobs').toEqual(model.jobs.map(rowOf));
}

export async function compareHistories(model: Model, { ledger, orgId }: System): Promise<void> {
  const { rows } = await ledger.db.api.query(EVENTS, [orgId]);
  const expected = model.jobs.flatMap((job) => job.history.map((entry) => ({ id: job.id, ...entry })));
  expect(rows, 'the histories of the jobs').toEqual(expected);
  const starts = rows.filter(({ to }) => to === 'running').map(({ id, round, attempt }) => `${id} ${round} ${attempt}`);
  expect(new Set(starts).size, 'attempts that started once').toBe(starts.length);
  expect(await checkInvariants(ledger.db.maintenance), 'broken invariants').toEqual([]);
}

/** What the claims say a worker holds, and by which claim, is what the model says. */
export async function compareHoldings(model: Model, { workers }: System): Promise<void> {
  for (const workerId of model.workers.keys()) {
    const owned = await ownedJobs(workers, workerId);
    const held = model.leases.filter((lease) => lease.workerId === workerId && isHeldBy(lease));
    const expected = held.map(({ job, leaseSeq, claimNo }) => `${leaseSeq} ${job.id} ${job.state} ${claimNo}`);
    const found = owned.map(({ id, leaseSeq, state, claimNo }) => `${leaseSeq} ${id} ${state} ${claimNo}`);
    expect(found.toSorted(), `what worker ${workerId} holds`).toEqual(expected.toSorted());
  }
}
