import { describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { useLedger } from '../ledger/fixture.ts';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
const sql = (text: string, values: unknown[] = []) => ledger.db.maintenance.query(text, values);

/** The ledger takes no worker whose name ends so, until the answer is called. */
async function refuseWorkers(ending: string): Promise<() => Promise<unknown>> {
  await sql(`CREATE FUNCTION millrace.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN IF NEW.name LIKE '%${ending}' THEN RAISE 'refused'; END IF; RETURN NEW; END$$`);
  await sql('CREATE TRIGGER refuse BEFORE INSERT ON millrace.workers FOR EACH ROW EXECUTE FUNCTION millrace.refuse()');
  const accept = () => sql('DROP FUNCTION IF EXISTS millrace.refuse CASCADE');
  onTestFinished(async () => {
    await accept();
  });
  return accept;
}

async function open(gate: Gate): Promise<Engine> {
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue, name: 'engine', pollMs: 20 });
  engine.registry.register({ type: 'pass', handler: () => gate.pass() });
  engine.addCrew({ name: 'second', slots: 1, queues: ['q:second'], registrations: [] });
  await engine.open();
  onTestFinished(() => engine.close(0));
  gate.open();
  return engine;
}

const submit = async (engine: Engine) =>
  submitJob(engine, { orgId: await ledger.newOrg(), submission: { type: 'pass', payload: {} }, actor: null });

const atWork = async (): Promise<string[]> =>
  (await sql('SELECT name FROM millrace.workers WHERE stopped_at IS NULL ORDER BY name')).rows.map(({ name }) => name);

describe('an engine whose start fails', () => {
  it('has nothing at work, not even what had started, and can be started again', async () => {
    const gate = new Gate();
    const engine = await open(gate);
    const accept = await refuseWorkers('second');
    await expect(engine.start()).rejects.toThrow('refused');
    expect([engine.isRunning, await atWork()]).toEqual([false, []]);
    await submit(engine);
    await expect(engine.start()).rejects.toThrow('refused');
    await accept();
    await engine.start();
    await gate.reached(1);
    expect([engine.isRunning, await atWork()]).toEqual([true, ['engine', 'engine/second']]);
  });

  it('fails for everybody who asked for that start', async () => {
    const engine = await open(new Gate());
    await refuseWorkers('second');
    const starts = await Promise.allSettled([engine.start(), engine.start()]);
    expect(starts.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });
});

describe('an engine that is stopped while it starts', () => {
  it('is stopped', async () => {
    const engine = await open(new Gate());
    const starting = engine.start();
    await engine.stop();
    await starting;
    expect([engine.isRunning, await atWork()]).toEqual([false, []]);
  });
});

describe('a worker that the ledger gave up', () => {
  it('gets a new name as soon as the ledger takes one, and works on', async () => {
    const gate = new Gate();
    const engine = await open(gate);
    await engine.start();
    const accept = await refuseWorkers('engine');
    const errors: string[] = [];
    engine.events.on('error', ({ where }) => errors.push(where));
    await sql('UPDATE millrace.workers SET stopped_at = millrace.clock()');
    await until('the worker has polled twice in vain', () => errors.filter((where) => where === 'poll').length >= 2);
    await accept();
    await submit(engine);
    await gate.reached(1);
    await until('both workers are at work', async () => (await atWork()).length, 2);
  });
});
