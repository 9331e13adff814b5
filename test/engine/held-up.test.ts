/** What becomes of outcomes that the database does not take at once. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { useLockPatience } from '../ledger/patient.ts';
import { AT_ONCE, allEnded, Gate, pathOf, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { LoneWorker } from './lone-worker.ts';

const bench = useBench();
// For the triggers that its tests create and drop beside a worker.
useLockPatience(bench.ledger);
type Fault = { id: string; when: string; action: string };

/** From here on the database does this whenever it changes the job. */
async function whenChanging({ id, when, action }: Fault): Promise<() => Promise<unknown>> {
  const name = `fault_${randomUUID().replaceAll('-', '')}`;
  const db = bench.ledger.db.maintenance;
  await db.query(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN ${action} RETURN NEW; END$$;
    CREATE TRIGGER ${name} BEFORE UPDATE ON millrace.jobs FOR EACH ROW
      WHEN (NEW.id = '${id}' AND ${when}) EXECUTE FUNCTION ${name}()`);
  return () => db.query(`DROP FUNCTION ${name} CASCADE`);
}

const ENDS = `OLD.state = 'running' AND NEW.worker_id IS NULL`;
const REFUSE = `RAISE EXCEPTION 'disk of sand';`;

/** Jobs that wait at a gate and then do what is said of them. */
async function atTheGate(count: number, handler: (n: number) => unknown = (n) => ({ n })) {
  const gate = new Gate();
  const work = async (_: unknown, payload: unknown) => {
    await gate.pass();
    return handler((payload as { n: number }).n);
  };
  const org = await bench.ledger.newOrg();
  const millrace = await bench.work({ waits: work }, { org, concurrency: 100, defaults: { maxAttempts: 2 } });
  const errors = countErrors(millrace);
  const submissions = Array.from({ length: count }, (_, n) => ({ type: 'waits', payload: { n }, backoff: AT_ONCE }));
  const { results } = await millrace.submitMany(submissions);
  await gate.reached(count);
  return { millrace, gate, errors, ids: results.map(({ jobId }) => jobId as string) };
}

function countErrors(millrace: Millrace): { reached(count: number): Promise<void> } {
  let count = 0;
  millrace.on('error', () => count++);
  return {
    reached: (wanted) =>
      until(
        `the outcome has been tried ${wanted} times`,
        () => count,
        (count) => count >= wanted,
      ),
  };
}

describe('an outcome that others are in the way of', () => {
  it.each(['55P03', '40P01', '40001'])('for %s is kept and written once they are gone', async (sqlState) => {
    const { millrace, gate, errors, ids } = await atTheGate(2, (n) => {
      if (n === 1) throw new Error('failed');
      return { n };
    });
    const [good = '', bad = ''] = ids;
    const heals = await Promise.all(ids.map((id) => whenChanging({ id, when: ENDS, action: `RAISE SQLSTATE '${sqlState}';` })));
    gate.open();
    await errors.reached(12);
    for (const heal of heals) await heal();
    expect(await millrace.waitFor(good)).toMatchObject({
      state: 'completed',
      attemptsStarted: 1,
      result: { output: { n: 0 } },
    });
    expect(await millrace.waitFor(bad)).toMatchObject({ state: 'dead_letter', attemptsStarted: 2 });
    expect(await bench.violations()).toEqual([]);
  });

  it('is not lost with the policy that could not be read: the job runs', async () => {
    let refusals = 0;
    const worker = await LoneWorker.start({
      ...{ url: bench.ledger.db.url, lease: '1m' },
      policiesOn: ({ workers }) => ({
        query: (config) => (refusals++ < 2 ? workers.query(`DO $$BEGIN RAISE SQLSTATE '55P03'; END$$`) : workers.query(config)),
      }),
    });
    const millrace = await bench.open({ org: await bench.ledger.newOrg() });
    const { jobId } = await millrace.submit({ type: 'patient', payload: {}, timeout: '17m' });
    (await worker.began(jobId)).end('read');
    expect(await millrace.waitFor(jobId)).toMatchObject({ state: 'completed', attemptsStarted: 1 });
    expect(refusals).toBe(3);
  });
});

describe('an outcome that the database refuses', () => {
  it('takes no other with it; its attempt fails and says so', async () => {
    const { millrace, gate, ids } = await atTheGate(20);
    const refused = ids[7] as string;
    await whenChanging({ id: refused, when: `NEW.state = 'completed'`, action: REFUSE });
    gate.open();
    const others = ids.filter((id) => id !== refused);
    for (const job of await allEnded(millrace, others)) expect(job).toMatchObject({ state: 'completed', attemptsStarted: 1 });
    expect(await millrace.waitFor(refused)).toMatchObject({
      ...{ state: 'dead_letter', attemptsStarted: 2 },
      result: { error: { category: 'SYSTEM', code: 'OUTCOME_NOT_STORED' } },
    });
    expect(await bench.violations()).toEqual([]);
  });

  it('in any words is offered until it is taken', async () => {
    const { millrace, gate, errors, ids } = await atTheGate(1);
    const [id = ''] = ids;
    const heal = await whenChanging({ id, when: ENDS, action: REFUSE });
    gate.open();
    await errors.reached(4);
    await heal();
    expect(await millrace.waitFor(id, { timeout: '30s' })).toMatchObject({ state: 'completed', attemptsStarted: 2 });
    expect(await pathOf(millrace, id)).toContain('running>retrying:system_failure');
  });
});

describe('outcomes that are too much for one statement', () => {
  const LARGE = 'x'.repeat(900_000);

  // What a statement carries is seen by the database alone.
  beforeAll(async () => {
    await bench.ledger.db.maintenance.query(`
      CREATE TABLE millrace.statement_sizes (length int8);
      CREATE FUNCTION millrace.note_size() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
        IF TG_OP = 'INSERT' THEN
          INSERT INTO millrace.statement_sizes SELECT sum(octet_length(payload::text)) FROM written;
        ELSE
          INSERT INTO millrace.statement_sizes SELECT sum(octet_length(result::text)) FROM written WHERE state = 'completed';
        END IF;
        RETURN NULL;
      END$$;
      CREATE TRIGGER note_results AFTER UPDATE ON millrace.jobs REFERENCING NEW TABLE AS written
        FOR EACH STATEMENT EXECUTE FUNCTION millrace.note_size();
      CREATE TRIGGER note_payloads AFTER INSERT ON millrace.jobs REFERENCING NEW TABLE AS written
        FOR EACH STATEMENT EXECUTE FUNCTION millrace.note_size()`);
  });

  const largest = async () =>
    Number((await bench.ledger.db.maintenance.query('SELECT max(length) AS max FROM millrace.statement_sizes')).rows[0].max);

  it('are written in several, and so are payloads', async () => {
    const { millrace, gate, ids } = await atTheGate(24, () => LARGE);
    gate.open();
    for (const { state } of await allEnded(millrace, ids)) expect(state).toBe('completed');
    expect(await largest()).toBeGreaterThan(900_000);
    const submitting = ids.map((_, n) => millrace.submit({ type: 'nobody', payload: { n, LARGE } }));
    await Promise.all(submitting);
    expect(await largest()).toBeLessThan(8.5 * 1_048_576);
  });

  it('by their number are written in halves after a statement that took too long', async () => {
    const db = bench.ledger.db.maintenance;
    const { millrace, gate, ids } = await atTheGate(30);
    await db.query(`
      CREATE FUNCTION millrace.too_many() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
        IF (SELECT count(*) FROM written WHERE state = 'completed') > 3 THEN RAISE SQLSTATE '57014'; END IF;
        RETURN NULL;
      END$$;
      CREATE TRIGGER too_many AFTER UPDATE ON millrace.jobs REFERENCING NEW TABLE AS written
        FOR EACH STATEMENT EXECUTE FUNCTION millrace.too_many()`);
    onTestFinished(async () => {
      await db.query('DROP FUNCTION millrace.too_many CASCADE');
    });
    gate.open();
    for (const job of await allEnded(millrace, ids)) expect(job).toMatchObject({ state: 'completed', attemptsStarted: 1 });
  });
});

describe('a worker that stops while the database is away', () => {
  it('does not wait for it; its jobs are left to others [GM-7.01]', async () => {
    const road = new DatabaseRoad(bench.ledger.db.url);
    await road.open();
    onTestFinished(() => road.close());
    const worker = await LoneWorker.start({ url: road.url, lease: '1m', lastWritesMs: 50 });
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org });
    const jobs = [await millrace.submit({ type: 'patient', payload: {} }), await millrace.submit({ type: 'patient', payload: {} })];
    const [finished, unfinished] = await Promise.all(jobs.map(({ jobId }) => worker.began(jobId)));
    await road.close();
    finished?.end('never written');
    await worker.drain();
    expect(unfinished?.context.signal.aborted).toBe(true);
    const other = await bench.work({ patient: () => 'rescued' }, { org });
    for (const { jobId } of jobs)
      expect(await other.waitFor(jobId, { timeout: '30s' })).toMatchObject({ state: 'completed', attemptsStarted: 2 });
    expect(await bench.violations()).toEqual([]);
  });
});
