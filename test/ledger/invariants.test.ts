import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { JOB_STATES } from '../../src/core/states.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { checkInvariants, type Violation } from '../../src/ledger/upkeep/invariants.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const TABLES = `jobs ready timers waiting claims cancel_requests dependencies releases idempotency_keys records progress
  checkpoints`.split(/\s+/);
// Without foreign keys, so that the order of the tables does not matter. A TRUNCATE of few rows takes 20 times as long.
const EMPTY = `BEGIN; SET LOCAL session_replication_role = replica;
  ${TABLES.map((table) => `DELETE FROM millrace.${table};`).join(' ')} COMMIT`;

const sql = (text: string, values: unknown[] = []) => ledger.db.maintenance.query(text, values);
const check = () => checkInvariants(ledger.db.maintenance);

/** Each test sees what it planted and nothing else. */
afterEach(async () => {
  await ledger.db.maintenance.query(EMPTY);
});

async function expectFound(job: TestJob, invariant: Violation['invariant'], what: RegExp, orgId = job.orgId): Promise<void> {
  const found = await check();
  expect(found).toContainEqual({ invariant, orgId, jobId: job.id, what: expect.stringMatching(what) });
}

test('a busy ledger that only the real operations wrote has no violation', async () => {
  const orgId = await ledger.newOrg();
  for (const state of JOB_STATES) await ledger.putJob(state, { orgId });
  const retried = await ledger.putJob('dead_letter', { orgId });
  await retryJob(ledger.db.api, { ...retried, resetAttempts: true, priority: null, delayMs: null, actor: null });
  const twice = await ledger.start(retried);
  await ledger.settle(twice, { to: 'retrying', reason: 'worker_lost', delayMs: 0 });
  await ledger.start(retried);
  await ledger.lease(await ledger.submitOne({ orgId }));
  const parent = await ledger.start(await ledger.submitOne({ orgId }));
  await ledger.submitOne({ orgId, placement: { parentSeq: parent.seq, joinsParent: true } });
  await ledger.settle(parent, { to: 'completed', reason: 'succeeded', holds: true });
  const running = await ledger.start(await ledger.submitOne({ orgId, job: { idempotencyKey: 'k', fingerprint: 'f' } }));
  await cancelJobs(ledger.db.api, { projectId: null, orgId, ids: [running.id], reason: null, actor: null, force: true });
  await ledger.settle(running, { to: 'cancelled', reason: 'cancelled' });
  expect(await check()).toEqual([]);
});

test('a ledger larger than one batch is read to its end', async () => {
  const orgId = await ledger.newOrg();
  const { seq } = await ledger.submitOne({ orgId });
  await sql(
    `WITH copied AS (
       INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, order_key, policy_id, state, priority,
         requested_priority, max_attempts, event_count, record_ids, queue, job_type, payload)
       SELECT nextval('millrace.job_seq'), org_id, gen_random_uuid(), created_at, updated_at, run_at, order_key, policy_id, state,
         priority, requested_priority, max_attempts, event_count, ARRAY[-n], queue, job_type, payload
       FROM millrace.jobs, generate_series(1, 1100) n WHERE org_id = $1 AND seq = $2 RETURNING *
     ), ready AS (
       INSERT INTO millrace.ready (order_key, org_id, priority, queue, job_type, seqs)
       SELECT order_key, org_id, priority, queue, job_type, ARRAY[seq] FROM copied
     )
     INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
     SELECT record_ids[1], created_at, org_id, 'pending', 'scheduled', priority, job_type, 'submitted', ARRAY[seq] FROM copied`,
    [orgId, seq],
  );
  expect(await check()).toEqual([]);
  const { rows } = await sql('SELECT max(seq) AS seq FROM millrace.jobs');
  await sql('DELETE FROM millrace.records WHERE seqs = ARRAY[$1::int8]', [rows[0].seq]);
  expect(await check()).toMatchObject([{ invariant: 'I5', what: expect.stringMatching(/no history/) }]);
});

describe('keys', () => {
  test('I3: two jobs with one key within its window', async () => {
    const orgId = await ledger.newOrg();
    const first = await ledger.submitOne({ orgId, type: 'mail' });
    const second = await ledger.submitOne({ orgId, type: 'mail' });
    await sql(`UPDATE millrace.jobs SET idempotency_key = 'k' WHERE org_id = $1`, [orgId]);
    await expectFound(second, 'I3', /already had a job/);
    await sql(`UPDATE millrace.jobs SET created_at = created_at - interval '2 days' WHERE id = $1`, [first.id]);
    expect(await check()).toEqual([]);
  });

  test('I3: a key that names a job without it', async () => {
    const job = await ledger.submitOne();
    await sql(`INSERT INTO millrace.idempotency_keys VALUES ($1, 'mail', 'k', $2, 'f', now())`, [job.orgId, job.id]);
    await expectFound(job, 'I3', /does not carry it/);
  });
});

describe('histories', () => {
  // The database would not let it come to some of this.
  beforeAll(() => sql('ALTER TABLE millrace.records DROP CONSTRAINT transitions_are_legal'));

  const setEvent = (job: TestJob, n: number, change: string) =>
    sql(`UPDATE millrace.records SET ${change} WHERE seqs = ARRAY[$1::int8] AND coalesce(ns[1], 1) = $2`, [job.seq, n]);

  test('I4: a pair of states that is not legal', async () => {
    const job = await ledger.putJob('completed');
    await setEvent(job, 2, `from_state = 'scheduled', to_state = 'retrying'`);
    await expectFound(job, 'I4', /from scheduled to retrying/);
  });

  test('I4: a legal pair for a reason that is not', async () => {
    const job = await ledger.putJob('completed');
    await setEvent(job, 3, `reason = 'worker_lost'`);
    await expectFound(job, 'I4', /because of worker_lost/);
  });

  test('I4: an event that does not begin where the last one ended', async () => {
    const job = await ledger.putJob('completed');
    await setEvent(job, 1, `to_state = 'delayed'`);
    await expectFound(job, 'I4', /starts from scheduled, but the job was delayed/);
  });

  test('I4: a lease that goes back', async () => {
    const job = await ledger.putJob('completed');
    await setEvent(job, 3, 'lease_seqs = ARRAY[0]');
    await expectFound(job, 'I4', /carries lease 0 after/);
  });

  test('I4: a gap in the numbers', async () => {
    const job = await ledger.putJob('completed');
    await sql('DELETE FROM millrace.records WHERE seqs = ARRAY[$1::int8] AND ns[1] = 2', [job.seq]);
    await expectFound(job, 'I4', /event 2 has the number 3/);
  });

  test('I4: a second end of one pass', async () => {
    const job = await ledger.putJob('failed');
    await sql(
      `INSERT INTO millrace.records (id, at, org_id, priority, job_type, from_state, to_state, reason, seqs, ns, lease_seqs, attempts)
       SELECT id, at, org_id, priority, job_type, from_state, to_state, reason, seqs, '{4}', lease_seqs, attempts FROM millrace.records
       WHERE seqs = ARRAY[$1::int8] AND ns[1] = 3`,
      [job.seq],
    );
    await expectFound(job, 'I4', /ends a pass that had ended/);
  });

  test('I5: a row that says something else than its last event', async () => {
    const job = await ledger.putJob('completed');
    await sql(`UPDATE millrace.jobs SET state = 'failed' WHERE id = $1`, [job.id]);
    await expectFound(job, 'I5', /is failed, its last event says completed/);
  });

  test('I5: a row that counts other events than there are', async () => {
    const job = await ledger.putJob('completed');
    await sql('UPDATE millrace.jobs SET event_count = 9 WHERE id = $1', [job.id]);
    await expectFound(job, 'I5', /counts 9 events, its last is 3/);
  });

  test('I6: a start without anything that failed before', async () => {
    const first = await ledger.start(await ledger.submitOne());
    await ledger.settle(first, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
    await ledger.start(first);
    expect(await check()).toEqual([]);
    await sql('DELETE FROM millrace.records WHERE seqs = ARRAY[$1::int8] AND ns[1] = 3', [first.seq]);
    await expectFound(first, 'I6', /event 5 starts the job again/);
  });

  test('I9: a lease that acts while another runs the job', async () => {
    const running = await ledger.start(await ledger.submitOne());
    await ledger.settle(running, { to: 'completed', reason: 'succeeded' });
    await setEvent(running, 3, 'lease_seqs = ARRAY[lease_seqs[1] + 1000]');
    await expectFound(running, 'I9', /acts while lease/);
  });

  test('I9: a lease that is used for two attempts', async () => {
    const first = await ledger.start(await ledger.submitOne());
    await ledger.settle(first, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
    await ledger.start(first);
    await setEvent(first, 5, `lease_seqs = ARRAY[${first.leaseSeq}]`);
    await expectFound(first, 'I9', /which is not new/);
  });

  test('I9: a row that is held by another worker than the one that started it', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const thief = await ledger.registerWorker();
    await sql('UPDATE millrace.jobs SET worker_id = $2 WHERE id = $1', [job.id, thief]);
    await sql('UPDATE millrace.claims SET worker_id = $1', [thief]);
    await expectFound(job, 'I9', new RegExp(`worker ${thief} holds the job`));
  });
});

describe('I8: a row of one org that names a job of another', () => {
  const rows: Record<string, string> = {
    ready: `INSERT INTO millrace.ready (order_key, org_id, priority, queue, job_type, seqs) VALUES (1, $1, 2, 'q', 't', ARRAY[$2::int8])`,
    timers: 'INSERT INTO millrace.timers (run_at, seq, org_id) VALUES (now(), $2, $1)',
    waiting: 'INSERT INTO millrace.waiting (seq, org_id) VALUES ($2, $1)',
    claims: `INSERT INTO millrace.claims VALUES (1, 1, $1, 't', ARRAY[$2::int8])`,
    cancel_requests: 'INSERT INTO millrace.cancel_requests VALUES ($1, $2, false, NULL, NULL, now())',
    dependencies: 'INSERT INTO millrace.dependencies VALUES ($1, $2, 0)',
    'dependencies ': 'INSERT INTO millrace.dependencies VALUES ($1, 0, $2)',
    releases: 'INSERT INTO millrace.releases (org_id, seq) VALUES ($1, $2)',
    progress: 'INSERT INTO millrace.progress VALUES ($1, $2, 1, NULL, now())',
    checkpoints: `INSERT INTO millrace.checkpoints VALUES ($1, $2, '', 1, now())`,
    events: `INSERT INTO millrace.records (id, at, org_id, to_state, priority, job_type, reason, seqs, ns)
             VALUES (0, now(), $1, 'pending', 2, 't', 'submitted', ARRAY[$2::int8], '{9}')`,
  };

  test.each(Object.entries(rows))('in %s', async (table, insert) => {
    const job = await ledger.submitOne();
    const stranger = await ledger.newOrg();
    await sql(insert, [stranger, job.seq]);
    await expectFound(job, 'I8', new RegExp(`^${table.trim()} names a job of org ${job.orgId}`), stranger);
  });

  test('in idempotency_keys and as a parent', async () => {
    const job = await ledger.submitOne();
    const child = await ledger.submitOne();
    await sql(`INSERT INTO millrace.idempotency_keys VALUES ($1, 'mail', 'k', $2, 'f', now())`, [child.orgId, job.id]);
    await sql('UPDATE millrace.jobs SET parent_seq = $2 WHERE id = $1', [child.id, job.seq]);
    await expectFound(job, 'I8', /^idempotency_keys names/, child.orgId);
    await expectFound(job, 'I8', /^jobs.parent_seq names/, child.orgId);
  });
});

describe('tokens', () => {
  test.each([
    ['scheduled', 'ready'],
    ['delayed', 'timers'],
    ['retrying', 'timers'],
    ['pending', 'waiting'],
  ] as const)('T1: a %s job without its row in %s', async (state, table) => {
    const job = await ledger.putJob(state);
    expect(await check()).toEqual([]);
    const which = table === 'ready' ? 'seqs = ARRAY[$1::int8]' : 'seq = $1';
    await sql(`DELETE FROM millrace.${table} WHERE ${which}`, [job.seq]);
    await expectFound(job, 'T1', new RegExp(`a ${state} job`));
  });

  test('T2: a job that no claim of its worker contains', async () => {
    const job = await ledger.putJob('running');
    await sql('UPDATE millrace.claims SET seqs = ARRAY[0::int8]');
    await expectFound(job, 'T2', /no claim of worker/);
  });
});
