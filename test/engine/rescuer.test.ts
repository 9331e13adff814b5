import { expect, it } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { Rescuer } from '../../src/engine/upkeep/rescuer.ts';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { stopWorker } from '../../src/ledger/attempts/workers.ts';
import { type LeasedTestJob, rangesOf } from '../ledger/fixture.ts';
import { newJobAhead } from '../ledger/lease-ahead.ts';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();
const { ledger } = bench;
const HOUR = 3_600_000;
const LEASE_MS = 300_000;

function newRescuer(events = new EventHub()): Rescuer {
  const { db: database, policies } = ledger;
  return new Rescuer({ database, policies, events, onRescued: () => {}, onReleased: () => {} });
}

const running = async (workerId?: number) => ledger.start(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }), workerId);

/** A job whose worker stopped without giving it back. */
async function orphan(): Promise<LeasedTestJob> {
  const job = await running();
  await stopWorker(ledger.db.workers, job.workerId);
  return job;
}

it('takes no job from a live worker when the clock of the database is set forward', async () => {
  const job = await running();
  // A worker that beats seldom: three missed beats last longer than this test, however slow the machine is.
  await ledger.db.api.query('UPDATE millrace.workers SET beat_ms = 100000 WHERE id = $1', [job.workerId]);
  const rescuer = newRescuer();
  await rescuer.round();
  await ledger.moveClock(HOUR);
  await rescuer.round();
  expect(await ledger.stateOf(job)).toBe('running');
  await ledger.beat(job.workerId);
  await rescuer.round();
  await ledger.moveClock(HOUR);
  await rescuer.round();
  expect(await ledger.stateOf(job)).toBe('running');
});

it('takes the jobs of a worker that stays silent on its own clock as well', async () => {
  const job = await running();
  await ledger.moveClock(HOUR);
  const rescuer = newRescuer();
  await until('the job has been rescued', async () => {
    await rescuer.round();
    return (await ledger.stateOf(job)) === 'scheduled';
  });
});

it('takes the jobs of a worker that died before the clock was set back', async () => {
  const job = await ledger.start(await ledger.submitOne({ policy: { leaseMs: 500 } }));
  await ledger.moveClock(-HOUR);
  const rescuer = newRescuer();
  await until('the job has been rescued', async () => {
    await rescuer.round();
    return (await ledger.stateOf(job)) === 'scheduled';
  });
});

it('does not wait for a job that a transaction holds, and takes it in a later round', async () => {
  const [held, free] = [await orphan(), await orphan()];
  const holder = await bench.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [held.id]);
  const rescuer = newRescuer();
  await rescuer.round();
  expect([await ledger.stateOf(held), await ledger.stateOf(free)]).toEqual(['running', 'scheduled']);
  await holder.query('COMMIT');
  await rescuer.round();
  expect(await ledger.stateOf(held)).toBe('scheduled');
});

it('goes past more held jobs than one look finds', async () => {
  const { orgId, type } = await ledger.submitLine(600);
  const workerId = await ledger.registerWorker();
  await claimAndStart(ledger.db.workers, { workerId, ranges: rangesOf({ jobType: type }), limit: 600, claimNo: 1 });
  await stopWorker(ledger.db.workers, workerId);
  const behind = await orphan();
  const holder = await bench.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM millrace.jobs WHERE org_id = $1 FOR UPDATE', [orgId]);
  await newRescuer().round();
  expect(await ledger.stateOf(behind)).toBe('scheduled');
  await holder.query('COMMIT');
});

it('rescues the other workers when the rescue of one fails', async () => {
  const [broken, sound] = [await orphan(), await orphan()];
  await ledger.db.api.query(`CREATE FUNCTION millrace.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN IF OLD.id = '${broken.id}' THEN RAISE 'refused'; END IF; RETURN NEW; END$$`);
  await ledger.db.api.query('CREATE TRIGGER refuse BEFORE UPDATE ON millrace.jobs FOR EACH ROW EXECUTE FUNCTION millrace.refuse()');
  const events = new EventHub();
  const errors: string[] = [];
  events.on('error', ({ error }) => errors.push(String(error)));
  await newRescuer(events).round();
  await ledger.db.api.query('DROP TRIGGER refuse ON millrace.jobs');
  expect([await ledger.stateOf(broken), await ledger.stateOf(sound)]).toEqual(['running', 'scheduled']);
  expect(errors.join()).toContain('refused');
});

it('counts no attempt for a job that may have run when the rescue is cut short, and rescues it later', async () => {
  const job = await newJobAhead(ledger, { policy: { leaseMs: LEASE_MS } });
  await stopWorker(ledger.db.workers, job.workerId);
  const attempts = async () => {
    const text = 'SELECT state, attempts_started, event_count FROM millrace.jobs WHERE id = $1';
    return (await ledger.db.api.query(text, [job.id])).rows[0];
  };
  const before = await attempts();
  const sql = (text: string) => ledger.db.maintenance.query(text);
  await sql(`CREATE FUNCTION public.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE 'the rescuer is gone'; END$$`);
  await sql(`CREATE TRIGGER refuse_loss BEFORE INSERT ON millrace.records FOR EACH ROW
    WHEN (NEW.reason = 'worker_lost') EXECUTE FUNCTION public.refuse_loss()`);
  const events = new EventHub();
  const failed: string[] = [];
  events.on('error', ({ where }) => failed.push(where));
  await newRescuer(events).round();
  expect(failed).toContain('rescuer');
  expect(await attempts()).toEqual(before);
  await sql('DROP TRIGGER refuse_loss ON millrace.records');
  await newRescuer().round();
  expect(await attempts()).toMatchObject({ state: 'scheduled', attempts_started: 1 });
});
