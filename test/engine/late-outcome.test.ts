/** Outcomes of attempts whose start was not written before. */
import { expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { EventHub } from '../../src/engine/events.ts';
import { Claims } from '../../src/engine/work/claims.ts';
import { Completer } from '../../src/engine/work/completer.ts';
import type { Execution } from '../../src/engine/work/execution.ts';
import { LateStarts } from '../../src/engine/work/late-starts.ts';
import type { RegisteredHandler } from '../../src/engine/work/registry.ts';
import { lateExecution } from '../../src/engine/work/starter.ts';
import { leaseAhead } from '../../src/ledger/attempts/claim-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { lanesOf, type TestJob, useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
let claimNo = 0;

type Late = { workerId: number; execution: Execution; completer: Completer; starts: LateStarts; told: string[] };

/** A worker that leased the job ahead and called its handler. */
async function runningLate(job: TestJob, worker?: number): Promise<Late> {
  const workerId = worker ?? (await ledger.registerWorker());
  const claims = new Claims();
  const asked = { workerId, lanes: lanesOf(job), limit: 1, claimNo: ++claimNo };
  const { jobs } = await leaseAhead(ledger.db.workers, asked);
  const [leased] = jobs;
  if (leased === undefined) throw new Error('It could not be leased.');
  claims.open(claimNo, jobs);
  const registered = { type: job.jobType, fanIn: false } as RegisteredHandler;
  const policy = PROFILES.gopherqueue;
  const execution = lateExecution({ job: leased, policy, registered, claimNo, claimedMs: performance.now() });
  const events = new EventHub();
  const told: string[] = [];
  for (const name of ['completed', 'failed', 'lost'] as const) events.on(name, () => told.push(name));
  const parts = { database: ledger.db, workerId, events };
  const starts = new LateStarts(parts);
  const completer = new Completer({
    ...parts,
    claims,
    ensureStarted: (each) => starts.ensure(each),
    hasLine: () => false,
    onReleased: () => {},
    onWritten: () => {},
    onDelayed: () => {},
  });
  onTestFinished(async () => {
    starts.close();
    await completer.stop();
  });
  return { workerId, execution, completer, starts, told };
}

it('a result that the database refuses ends the attempt, which counts', async () => {
  const job = await ledger.submitOne();
  await ledger.db.maintenance.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'disk of sand'; END$$;
    CREATE TRIGGER refuse BEFORE UPDATE ON millrace.jobs FOR EACH ROW
      WHEN (NEW.id = '${job.id}' AND NEW.state = 'completed') EXECUTE FUNCTION refuse()`);
  const { execution, completer, told } = await runningLate(job);
  const isTaken = completer.finish(execution, { kind: 'succeeded', output: { kind: 'json', text: '{}' }, value: {} });
  expect(isTaken).toBe(true);
  await until(
    'the late outcome has been reported',
    () => told.length,
    (count) => count > 0,
  );
  expect(told).toEqual(['failed']);
  expect(await ledger.rowOf(job)).toMatchObject({ state: 'retrying', attempts_started: 1, worker_id: null });
  expect(await ledger.pathOf(job)).toEqual([
    'pending>scheduled:submitted',
    'scheduled>running:started',
    'running>retrying:system_failure',
  ]);
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
});

it('a start whose job another transaction holds keeps no other waiting', async () => {
  const held = await runningLate(await ledger.submitOne());
  const free = await runningLate(await ledger.submitOne(), held.workerId);
  const client = await ledger.db.api.connect();
  await client.query('BEGIN');
  await client.query('SELECT FROM millrace.jobs WHERE id = $1 FOR NO KEY UPDATE', [held.execution.job.id]);
  const waiting = held.starts.ensure(held.execution);
  expect(await held.starts.ensure(free.execution)).toBe(true);
  expect(held.execution.hasStarted).toBe(false);
  await client.query('COMMIT');
  client.release();
  expect(await waiting).toBe(true);
  expect(await ledger.rowOf(held.execution.job)).toMatchObject({ state: 'running', attempts_started: 1 });
});
