import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { TERMINAL_STATES } from '../../src/core/states.ts';
import { reportProgress, saveCheckpoint } from '../../src/ledger/attempts/fenced-writes.ts';
import { getEntry } from '../../src/ledger/dead-letters/read-entries.ts';
import { discardEntry } from '../../src/ledger/dead-letters/resolve-entry.ts';
import { pruneEntries } from '../../src/ledger/dead-letters/upkeep.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const DAY = 86_400_000;
const short = { retentionMs: DAY };

const exists = async (job: TestJob) => (await getJob(ledger.db.api, wholeOrg(job.orgId), job.id)) !== null;
const prune = (limit = 1_000) => ledger.prune(limit);

test('a job goes when its retention has passed since its end, and not before', async () => {
  const jobs: TestJob[] = [];
  for (const state of TERMINAL_STATES) jobs.push(await ledger.putJob(state, { policy: short }));
  await ledger.db.api.query('DELETE FROM millrace.dead_letters WHERE job_id = ANY ($1)', [jobs.map(({ id }) => id)]);
  const long = await ledger.putJob('completed', { policy: { retentionMs: 30 * DAY } });
  await ledger.moveClock(DAY - 60_000);
  await prune();
  expect(await Promise.all(jobs.map(exists))).toEqual([true, true, true, true]);
  await ledger.moveClock(60_000);
  expect(await prune()).toMatchObject({ jobs: 4 });
  expect(await Promise.all(jobs.map(exists))).toEqual([false, false, false, false]);
  expect(await exists(long)).toBe(true);
});

test('a dead letter keeps its job while it is open or can be restored, and is removed after its own retention [C60]', async () => {
  const [open, discarded] = [await ledger.putJob('dead_letter', { policy: short }), await ledger.putJob('dead_letter', { policy: short })];
  const entry = async (job: TestJob) => (await getEntry(ledger.db.api, wholeOrg(job.orgId), job.id))?.status ?? null;
  const undo = { actor: null, undoWindowMs: 3 * DAY, operationId: null };
  await discardEntry(ledger.db.api, { ...discarded, ...undo });
  await ledger.moveClock(2 * DAY);
  await prune();
  expect(await Promise.all([open, discarded].map(exists))).toEqual([true, true]);
  await ledger.moveClock(2 * DAY);
  await prune();
  expect(await Promise.all([open, discarded].map(exists))).toEqual([true, false]);
  expect(await Promise.all([open, discarded].map(entry))).toEqual(['open', 'discarded']);
  await ledger.moveClock(90 * DAY);
  expect(await pruneEntries(ledger.db.api, { retentionMs: 90 * DAY, limit: 1_000 })).toBeGreaterThanOrEqual(2);
  await prune();
  expect([await exists(open), await entry(open), await entry(discarded)]).toEqual([false, null, null]);
});

test('a job that has not ended is never pruned, however old it is', async () => {
  const jobs: TestJob[] = [];
  for (const state of ['pending', 'delayed', 'scheduled', 'running', 'retrying'] as const) {
    jobs.push(await ledger.putJob(state, { policy: { retentionMs: 0 } }));
  }
  const revived = await ledger.putJob('failed', { policy: short });
  await retryJob(ledger.db.api, { ...revived, resetAttempts: true, priority: null, delayMs: null, actor: null });
  await ledger.moveClock(400 * DAY);
  await prune();
  expect(await Promise.all([...jobs, revived].map(exists))).toEqual(Array(6).fill(true));
});

test('everything that speaks of a pruned job goes with it', async () => {
  const dependency = await ledger.putJob('completed', { policy: short });
  const job = await ledger.start(await ledger.submitOne({ orgId: dependency.orgId, policy: short }));
  await reportProgress(ledger.db.workers, { ...job, percent: 1, message: null });
  await saveCheckpoint(ledger.db.workers, { ...job, state: new Uint8Array([1]) });
  await ledger.settle(job, { to: 'completed', reason: 'succeeded' });
  await ledger.db.api.query('INSERT INTO millrace.dependencies VALUES ($1, $2, $3)', [job.orgId, job.seq, dependency.seq]);
  await ledger.db.api.query('INSERT INTO millrace.cancel_requests VALUES ($1, $2, false, NULL, NULL, now())', [job.orgId, job.seq]);
  const left = async () => {
    const tables = {
      progress: 'seq',
      checkpoints: 'seq',
      cancel_requests: 'seq',
      dependencies: 'job_seq',
      events: 'job_seq',
    };
    const counts = Object.entries(tables).map(async ([table, column]) => {
      const text = `SELECT count(*)::int4 AS count FROM millrace.${table} WHERE org_id = $1 AND ${column} = $2`;
      return [table, (await ledger.db.api.query(text, [job.orgId, job.seq])).rows[0].count];
    });
    return Object.fromEntries(await Promise.all(counts));
  };
  expect(await left()).toEqual({ progress: 1, checkpoints: 1, cancel_requests: 1, dependencies: 1, events: 3 });
  await ledger.moveClock(2 * DAY);
  await prune();
  expect(await left()).toEqual({ progress: 0, checkpoints: 0, cancel_requests: 0, dependencies: 0, events: 0 });
});

test('a job that another still waits for stays until that one moved on', async () => {
  const dependency = await ledger.submitOne({ policy: short });
  const dependent = await ledger.submitOne({ orgId: dependency.orgId, dependsOn: [dependency] });
  await ledger.settle(await ledger.start(dependency), { to: 'completed', reason: 'succeeded' });
  await ledger.moveClock(2 * DAY);
  await prune();
  expect(await exists(dependency)).toBe(true);
  await cancelJobs(ledger.db.api, {
    projectId: null,
    orgId: dependent.orgId,
    ids: [dependent.id],
    reason: null,
    actor: null,
    force: false,
  });
  await prune();
  expect(await exists(dependency)).toBe(false);
});

test('one call removes no more than its limit', async () => {
  const orgId = await ledger.newOrg();
  for (let made = 0; made < 5; made++) await ledger.putJob('cancelled', { orgId, policy: { retentionMs: 0 } });
  expect((await prune(2)).jobs).toBe(2);
  expect((await prune(2)).jobs).toBe(2);
  expect((await prune(2)).jobs).toBe(1);
});

test('the walk reaches jobs behind more live ones than one statement looks at', async () => {
  const { orgId, seq } = await ledger.submitOne({ orgId: 'ffffffff-ffff-4fff-8fff-ffffffffffff' });
  await ledger.db.maintenance.query(
    `INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, order_key, policy_id, state, priority,
       requested_priority, max_attempts, event_count, record_ids, queue, job_type, payload)
     SELECT nextval('millrace.job_seq'), org_id, gen_random_uuid(), created_at, updated_at, run_at, order_key, policy_id, state,
       priority, requested_priority, max_attempts, event_count, record_ids, queue, job_type, payload
     FROM millrace.jobs, generate_series(1, 6000) WHERE org_id = $1 AND seq = $2`,
    [orgId, seq],
  );
  const last = await ledger.putJob('completed', { orgId, policy: { retentionMs: 0 } });
  expect((await prune()).jobs).toBe(1);
  expect(await exists(last)).toBe(false);
});

test('keys go when they expire, requests to cancel when their job has ended', async () => {
  const orgId = await ledger.newOrg();
  const keyed = { orgId, job: { idempotencyKey: 'k-1', fingerprint: 'f' }, policy: { keyWindowMs: DAY } };
  await ledger.submitOne(keyed);
  const running = await ledger.start(await ledger.submitOne({ orgId }));
  const ended = await ledger.start(await ledger.submitOne({ orgId }));
  await ledger.settle(ended, { to: 'completed', reason: 'succeeded' });
  for (const job of [running, ended]) {
    await ledger.db.api.query('INSERT INTO millrace.cancel_requests VALUES ($1, $2, false, NULL, NULL, now())', [orgId, job.seq]);
  }
  expect(await prune()).toMatchObject({ idempotencyKeys: 0, cancelRequests: 1 });
  expect((await getJob(ledger.db.api, wholeOrg(orgId), running.id))?.cancelRequestedAt).toBeInstanceOf(Date);
  await ledger.moveClock(DAY);
  expect(await prune()).toMatchObject({ idempotencyKeys: 1, cancelRequests: 0 });
});
