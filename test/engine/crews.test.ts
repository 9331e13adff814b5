import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Handler, Registration } from '../../src/engine/work/registry.ts';
import { listWorkers } from '../../src/ledger/attempts/workers.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { useLedger } from '../ledger/fixture.ts';
import { Gate, untilAborted } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const SCRIPT = fileURLToPath(new URL('./fixtures/crews.ts', import.meta.url));
const QUEUE = 'q:second';

const ledger = useLedger();

type Params = { first?: Registration[]; second: Registration[]; slots?: number; concurrency?: number };

async function open({ first = [], second, slots = 10, concurrency = 2 }: Params): Promise<Engine> {
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue, concurrency });
  for (const registration of first) engine.registry.register(registration);
  engine.addCrew({ name: 'second', slots, queues: [QUEUE], registrations: second });
  await engine.open();
  onTestFinished(() => engine.close(0));
  await engine.start();
  return engine;
}

/** Whoever submits for another crew than the first says so. */
async function submit(engine: Engine, orgId: string, type: string): Promise<string> {
  const queue = type.startsWith('second') ? QUEUE : 'q:first';
  const { jobId } = await submitJob(engine, { orgId, submission: { type, queue, payload: {} }, actor: null });
  if (queue === QUEUE) engine.hint('ready');
  return jobId;
}

const stateOf = async (orgId: string, id: string) => (await ledger.rowOf({ orgId, id })).state;
const violations = () => checkInvariants(ledger.db.maintenance);

describe('a crew', () => {
  it('whose handlers all hang takes no slot of another', async () => {
    const orgId = await ledger.newOrg();
    const gate = new Gate();
    const done = { count: 0 };
    const engine = await open({
      first: [{ type: 'first-quick', handler: () => void done.count++ }],
      second: [{ type: 'second-hanging', handler: () => gate.pass() }],
    });
    for (let i = 0; i < 30; i++) await submit(engine, orgId, 'second-hanging');
    await gate.reached(10);
    for (let i = 0; i < 20; i++) await submit(engine, orgId, 'first-quick');
    await until('all twenty jobs have run', () => done.count, 20);
    expect(gate.arrived).toBe(10);
    gate.open();
    await gate.reached(30);
  });

  it('has the policy that its handler was registered with', async () => {
    const orgId = await ledger.newOrg();
    const engine = await open({ second: [{ type: 'second-policy', handler: () => {}, maxAttempts: 7 }] });
    const entry = await engine.prepare({ orgId, submission: { type: 'second-policy', payload: {} }, actor: null });
    expect(entry).toMatchObject({ job: { policy: { maxAttempts: 7 } } });
  });

  it('may spawn jobs under the lease of its worker', async () => {
    const orgId = await ledger.newOrg();
    const ran: string[] = [];
    const parent: Handler = async (context) => {
      await context.spawn({ type: 'first-child', payload: {} });
      ran.push('parent');
    };
    const engine = await open({
      first: [{ type: 'first-child', handler: () => void ran.push('child') }],
      second: [{ type: 'second-parent', handler: parent }],
    });
    const id = await submit(engine, orgId, 'second-parent');
    await until('both jobs have run', () => ran.length, 2);
    await until('the job has completed', () => stateOf(orgId, id), 'completed');
  });

  it('drains with the others, and returns the jobs it cannot finish in time', async () => {
    const orgId = await ledger.newOrg();
    const begun = { count: 0 };
    const handler: Handler = (context) => {
      begun.count++;
      return untilAborted(context.signal);
    };
    const engine = await open({
      first: [{ type: 'first-patient', handler }],
      second: [{ type: 'second-patient', handler }],
    });
    const ids = [await submit(engine, orgId, 'first-patient'), await submit(engine, orgId, 'second-patient')];
    await until('both jobs have begun', () => begun.count, 2);
    const names = await aliveNames();
    expect(names).toContainEqual(expect.stringMatching(/\/second$/));
    await engine.drain(0);
    for (const id of ids) expect(await stateOf(orgId, id)).not.toBe('running');
    expect(await aliveNames()).toEqual([]);
    expect(await violations()).toEqual([]);
  });

  it('with a handler that cannot be used is refused', () => {
    const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
    const bad = { type: 'x'.repeat(101), handler: () => {} };
    const crew = { name: 'second', slots: 1, queues: [QUEUE], registrations: [bad] };
    expect(() => engine.addCrew(crew)).toThrow(expect.objectContaining({ code: 'INVALID_HANDLER' }));
  });

  it('that dies with its process leaves its jobs to another process, as every crew does', async () => {
    const orgId = await ledger.newOrg();
    const child = await WorkerProcess.start({ url: ledger.db.url, org: orgId, script: SCRIPT });
    const ids: string[] = [];
    const submitter = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
    await submitter.open();
    onTestFinished(() => submitter.close(0));
    for (const type of ['first', 'second']) ids.push(await submit(submitter, orgId, type));
    await child.says('began first');
    await child.says('began second');
    await child.kill();
    const done: string[] = [];
    await open({
      first: [{ type: 'first', handler: () => void done.push('first') }],
      second: [{ type: 'second', handler: () => void done.push('second') }],
    });
    for (const id of ids) await until(`job ${id} has completed`, () => stateOf(orgId, id), 'completed');
    expect(done.sort()).toEqual(['first', 'second']);
    expect(await violations()).toEqual([]);
  });
});

const aliveNames = async () =>
  (await listWorkers(ledger.db.maintenance)).filter(({ stoppedAt }) => stoppedAt === null).map(({ name }) => name);
