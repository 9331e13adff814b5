/** Outcomes of attempts whose start was not written before. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { EventHub } from '../../src/engine/events.ts';
import { Claims } from '../../src/engine/work/claims.ts';
import { LateStarts } from '../../src/engine/work/late-starts.ts';
import { OutcomeWriter } from '../../src/engine/work/outcome-writer.ts';
import type { RegisteredHandler } from '../../src/engine/work/registry.ts';
import type { RunningAttempt } from '../../src/engine/work/running-attempt.ts';
import { lateAttempt } from '../../src/engine/work/starter.ts';
import { leaseAhead } from '../../src/ledger/attempts/claim-jobs.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { rangesOf, type TestJob, useLedger } from '../ledger/fixture.ts';
import { whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';

const ledger = useLedger();
let claimNo = 0;

type Late = { workerId: number; attempt: RunningAttempt; outcomes: OutcomeWriter; starts: LateStarts; told: string[] };

/** A worker that leased the job ahead and called its handler. */
async function runningLate(job: TestJob, worker?: number): Promise<Late> {
  const workerId = worker ?? (await ledger.registerWorker());
  const claims = new Claims();
  const asked = { workerId, ranges: rangesOf(job), limit: 1, claimNo: ++claimNo };
  const { jobs } = await leaseAhead(ledger.db.workers, asked);
  const [leased] = jobs;
  if (leased === undefined) throw new Error('It could not be leased.');
  claims.open(claimNo, jobs);
  const registered = { type: job.jobType, fanIn: null } as RegisteredHandler;
  const policy = PROFILES.gopherqueue;
  const attempt = lateAttempt({ job: leased, policy, registered, claimNo, claimedMs: performance.now() });
  const events = new EventHub();
  const told: string[] = [];
  for (const name of ['completed', 'failed', 'lost'] as const) events.on(name, () => told.push(name));
  const parts = { database: ledger.db, workerId, events };
  const starts = new LateStarts(parts);
  const outcomes = new OutcomeWriter({
    ...parts,
    claims,
    ensureStarted: (each) => starts.ensure(each),
    hasLeasedAhead: () => false,
    onReleased: () => {},
    onWritten: () => {},
    onDelayed: () => {},
  });
  onTestFinished(async () => {
    starts.close();
    await outcomes.stop();
  });
  return { workerId, attempt, outcomes, starts, told };
}

it('a result that the database refuses ends the attempt, which counts', async () => {
  const job = await ledger.submitOne();
  await ledger.db.maintenance.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'disk of sand'; END$$;
    CREATE TRIGGER refuse BEFORE UPDATE ON millrace.jobs FOR EACH ROW
      WHEN (NEW.id = '${job.id}' AND NEW.state = 'completed') EXECUTE FUNCTION refuse()`);
  const { attempt, outcomes, told } = await runningLate(job);
  const isTaken = outcomes.complete(attempt, { kind: 'succeeded', output: { kind: 'json', text: '{}' }, value: {} });
  expect(isTaken).toBe(true);
  await until(
    'the late outcome has been reported',
    () => told.length,
    (count) => count > 0,
  );
  expect(told).toEqual(['failed']);
  expect(await ledger.rowOf(job)).toMatchObject({ state: 'retrying', attempts_started: 1, worker_id: null });
  expect(await ledger.pathOf(job)).toEqual(['pending>scheduled:submitted', 'scheduled>running:started', 'running>retrying:system_failure']);
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
});

it('a start whose job another transaction holds keeps no other waiting', async () => {
  const held = await runningLate(await ledger.submitOne());
  const free = await runningLate(await ledger.submitOne(), held.workerId);
  const text = 'SELECT FROM millrace.jobs WHERE id = $1 FOR NO KEY UPDATE';
  const { waiting } = await whileHolding({ url: ledger.db.url, text, values: [held.attempt.job.id] }, async () => {
    const start = held.starts.ensure(held.attempt);
    expect(await held.starts.ensure(free.attempt)).toBe(true);
    expect(held.attempt.hasStarted).toBe(false);
    return { waiting: start };
  });
  expect(await waiting).toBe(true);
  expect(await ledger.rowOf(held.attempt.job)).toMatchObject({ state: 'running', attempts_started: 1 });
});

describe('a start that the heartbeat thread wrote while the main thread was blocked', () => {
  async function startedByThread() {
    const late = await runningLate(await ledger.submitOne());
    const { started } = await startJobs(ledger.db.workers, { workerId: late.workerId, jobs: [late.attempt.job] });
    expect(started.size).toBe(1);
    return late;
  }

  it('is the start of the attempt, which goes on', async () => {
    const { attempt, starts } = await startedByThread();
    expect(await starts.ensure(attempt)).toBe(true);
  });

  it('does not keep its handler from completing the job', async () => {
    const { attempt, outcomes, told } = await startedByThread();
    outcomes.write(attempt, { kind: 'succeeded', output: { kind: 'json', text: '{}' }, value: {} });
    await until(
      'the outcome has been reported',
      () => told.length,
      (count) => count > 0,
    );
    expect(told).toEqual(['completed']);
    expect(await ledger.rowOf(attempt.job)).toMatchObject({ state: 'completed', attempts_started: 1 });
  });
});
