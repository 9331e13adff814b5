/** Cancelling a job whose handler may run although its start is not written. */
import { afterEach, expect, test } from 'vitest';
import { completeLateJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { returnExpired, returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type LeasedTestJob, useLedger } from './fixture.ts';
import { lateJob, newJobAhead } from './lease-ahead.ts';
import { useLockPatience } from './patient.ts';

const ledger = useLedger();
useLockPatience(ledger);
const db = () => ledger.db.workers;
const SUBMITTED = 'pending>scheduled:submitted';
const CANCELLED = [SUBMITTED, 'scheduled>cancelled:cancelled'];

afterEach(async () => {
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
});

const cancel = ({ orgId, id }: LeasedTestJob, on: Queryable = ledger.db.api) =>
  cancelJobs(on, { projectId: null, orgId, ids: [id], reason: 'no longer needed', actor: 'user:1', force: false });

const giveBack = (job: LeasedTestJob, on: Queryable = db()) => returnJobs(on, { workerId: job.workerId, jobs: [job], closedClaims: [] });

const complete = (job: LeasedTestJob) => completeLateJobs(db(), { workerId: job.workerId, finished: [lateJob(job)], closedClaims: [] });

const requestsOf = async ({ seq }: LeasedTestJob) =>
  (await ledger.db.api.query('SELECT FROM millrace.cancel_requests WHERE seq = $1', [seq])).rowCount;

test('it is a request, which the next heartbeat brings to the worker', async () => {
  const job = await newJobAhead(ledger);
  expect(await cancel(job)).toEqual([{ id: job.id, kind: 'requested', previousState: 'scheduled' }]);
  expect(await ledger.pathOf(job)).toEqual([SUBMITTED]);
  const { cancels, lost } = await heartbeat(db(), { workerId: job.workerId, jobs: [job] });
  expect({ cancels, lost }).toEqual({ cancels: [{ leaseSeq: job.leaseSeq, force: false }], lost: [] });
});

test('a handler that succeeded all the same completes the job', async () => {
  const job = await newJobAhead(ledger);
  await cancel(job);
  expect([...(await complete(job)).landed]).toEqual([job.leaseSeq]);
  expect(await ledger.pathOf(job)).toEqual([SUBMITTED, 'scheduled>running:started', 'running>completed:succeeded']);
  expect(await cancel(job)).toMatchObject([{ kind: 'already_final', previousState: 'completed' }]);
});

test('a job that its worker returns ends with the words of the request and releases its dependents', async () => {
  const job = await newJobAhead(ledger);
  const dependent = await ledger.submitOne({ orgId: job.orgId, dependsOn: [job], dependencyType: 'AFTER_ANY' });
  await releaseDependents(ledger.db.maintenance, 100);
  await cancel(job);
  const answer = await giveBack(job);
  expect(answer).toEqual({ landed: new Set(), cancelled: new Set([job.leaseSeq]), released: true });
  expect(await ledger.pathOf(job)).toEqual(CANCELLED);
  const end = (await ledger.eventsOf(job)).at(-1);
  expect(end).toMatchObject({ actor: 'user:1', attempt: 0, detail: { reason: 'no longer needed' } });
  const row = await ledger.rowOf(job);
  expect(row).toMatchObject({ worker_id: null, attempts_started: 0, completed_at: end?.at });
  expect(await requestsOf(job)).toBe(0);
  expect(await ledger.tokensOf(job, 'ready')).toBe(0);
  expect(await ledger.tokensOf(job, 'releases')).toBe(1);
  await releaseDependents(ledger.db.maintenance, 100);
  expect(await ledger.stateOf(dependent)).toBe('scheduled');
});

test('without a request, a job that its worker returns is ready again', async () => {
  const job = await newJobAhead(ledger);
  expect(await giveBack(job)).toEqual({ landed: new Set([job.leaseSeq]), cancelled: new Set(), released: false });
  expect(await ledger.tokensOf(job, 'ready')).toBe(1);
  expect(await cancel(job)).toMatchObject([{ kind: 'cancelled' }]);
  expect(await ledger.pathOf(job)).toEqual(CANCELLED);
});

test('a request that is made while the return waits for the job is not overlooked', async () => {
  const job = await newJobAhead(ledger);
  const client = await ledger.db.api.connect();
  await client.query('BEGIN');
  expect(await cancel(job, client)).toMatchObject([{ kind: 'requested' }]);
  const returning = giveBack(job);
  await ledger.untilBlocked();
  await client.query('COMMIT');
  client.release();
  expect([...(await returning).cancelled]).toEqual([job.leaseSeq]);
  expect(await ledger.pathOf(job)).toEqual(CANCELLED);
  expect(await requestsOf(job)).toBe(0);
});

test('a cancel that waits for the return of the job cancels it at once', async () => {
  const job = await newJobAhead(ledger);
  const client = await ledger.db.workers.connect();
  await client.query('BEGIN');
  expect([...(await giveBack(job, client)).landed]).toEqual([job.leaseSeq]);
  const cancelling = cancel(job);
  await ledger.untilBlocked();
  await client.query('COMMIT');
  client.release();
  expect(await cancelling).toMatchObject([{ kind: 'cancelled' }]);
  expect(await ledger.pathOf(job)).toEqual(CANCELLED);
});

test('a job that is put back because its worker died is cancelled if somebody asked for it', async () => {
  const job = await newJobAhead(ledger, { policy: { onOrphan: 'fail', maxAttempts: 3 } });
  await cancel(job);
  await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [job.workerId]);
  const beat = await ledger.beatOf(job.workerId);
  const answer = await returnExpired(db(), { workerId: job.workerId, beat, jobs: [job] });
  expect([...answer.landed]).toEqual([]);
  expect(await ledger.pathOf(job)).toEqual(CANCELLED);
  expect((await ledger.eventsOf(job)).at(-1)).toMatchObject({ actor: 'user:1' });
  expect(await requestsOf(job)).toBe(0);
});

test('under a policy that cancels at once, the job ends and its handler writes nothing', async () => {
  const job = await newJobAhead(ledger, { policy: { cancelsAtOnce: true } });
  expect(await cancel(job)).toMatchObject([{ kind: 'cancelled', previousState: 'scheduled' }]);
  expect((await complete(job)).landed.size).toBe(0);
  expect((await giveBack(job)).landed.size).toBe(0);
  expect(await ledger.pathOf(job)).toEqual(CANCELLED);
});
