import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { PAUSES } from '../../src/core/backoff.ts';
import { AppError } from '../../src/core/errors.ts';
import { EventHub } from '../../src/engine/events.ts';
import { FailureDelays } from '../../src/engine/upkeep/failure-delays.ts';
import { Scheduler } from '../../src/engine/upkeep/scheduler.ts';
import { type ScheduleToStore, storedSchedules, storeSchedule } from '../ledger/stored-schedules.ts';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();
const HOUR_MS = 3_600_000;
const POISON = 'poison';
const TWO_HOURS_AGO = new Date(Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 2 * HOUR_MS);

afterEach(() => {
  Reflect.deleteProperty(Object.prototype, POISON);
});

const hourly = (key: string, more: Partial<ScheduleToStore> = {}): ScheduleToStore => ({
  ...{ key, cron: '0 * * * *', timeZone: 'UTC', missed: 'all', submission: { type: key, payload: {} } },
  nextAt: TWO_HOURS_AGO,
  ...more,
});

type Submit = (type: string) => Promise<void>;

/** A scheduler whose rounds the test takes, and the errors that it reported. */
function schedulerWith(submit: Submit): { scheduler: Scheduler; reported: string[] } {
  const events = new EventHub();
  const reported: string[] = [];
  events.on('error', ({ where }) => reported.push(where));
  const scheduler = new Scheduler({
    database: bench.ledger.db,
    events,
    turns: {
      async take(_client, { schedule }) {
        await submit((schedule.submission as { type: string }).type);
        return { kind: 'submitted', jobId: randomUUID() };
      },
    },
  });
  return { scheduler, reported };
}

async function orgWith(...schedules: ScheduleToStore[]): Promise<string> {
  await bench.ledger.db.api.query('DELETE FROM millrace.schedules');
  const orgId = await bench.ledger.newOrg();
  for (const schedule of schedules) await storeSchedule(bench.ledger.db.api, orgId, schedule);
  return orgId;
}

const FAULTS: [string, () => Error][] = [
  ['a bug', () => new TypeError('undefined is not a function')],
  ['a full queue table', () => new AppError('QUOTA_EXCEEDED')],
  ['a lost database', () => new AppError('UNAVAILABLE')],
  ['an error of the database', () => Object.assign(new Error('deadlock detected'), { code: '40P01' })],
];

describe('a schedule that cannot be fired', () => {
  it.each(FAULTS)('because of %s keeps all its turns, is reported, and delays no other', async (_what, fault) => {
    const orgId = await orgWith(hourly('broken'), hourly('sound', { missed: 'one' }));
    let isBroken = true;
    const fired: string[] = [];
    const { scheduler, reported } = schedulerWith(async (type) => {
      if (type === 'broken' && isBroken) throw fault();
      fired.push(type);
    });
    await scheduler.round();
    expect([fired, reported]).toEqual([['sound'], ['schedule broken']]);
    const [broken] = await storedSchedules(bench.ledger.db.api, orgId);
    expect(broken).toMatchObject({ nextAt: TWO_HOURS_AGO, lastFiredAt: null });
    isBroken = false;
    await until('the schedule has fired again', async () => {
      await scheduler.round();
      return fired.length > 1;
    });
    // A fourth if an hour struck meanwhile.
    expect(fired.slice(1, 4)).toEqual(['broken', 'broken', 'broken']);
  });

  it('because its own job is invalid skips that turn and is reported once', async () => {
    const orgId = await orgWith(hourly('invalid'));
    const { scheduler, reported } = schedulerWith(async () => {
      throw new AppError('INVALID_REQUEST');
    });
    await scheduler.round();
    const [invalid] = await storedSchedules(bench.ledger.db.api, orgId);
    expect([reported, invalid?.lastFiredAt]).toEqual([['schedule invalid'], null]);
    expect(invalid?.nextAt.getTime()).toBeGreaterThan(Date.now());
  });

  it('because its cron cannot be read here stays due', async () => {
    const orgId = await orgWith(hourly('moved', { timeZone: 'Mars/Olympus' }), hourly('sound'));
    const fired: string[] = [];
    const { scheduler, reported } = schedulerWith(async (type) => void fired.push(type));
    await scheduler.round();
    expect([fired.includes('sound'), reported]).toEqual([true, ['schedule moved']]);
    expect((await storedSchedules(bench.ledger.db.api, orgId))[0]?.nextAt).toEqual(TWO_HOURS_AGO);
  });

  it('among more than fit into a page keeps none of the ones behind it from firing', async () => {
    await orgWith(hourly('last', { missed: 'one', nextAt: new Date(Date.now() - 1_000) }));
    await bench.ledger.db.api.query(
      `INSERT INTO millrace.schedules (org_id, key, cron, time_zone, missed, submission, next_at, created_at)
       SELECT s.org_id, 'broken-' || n, s.cron, s.time_zone, 'one', '{"type":"broken","payload":{}}', s.next_at - interval '1 hour', s.created_at
       FROM millrace.schedules s, generate_series(1, 600) n`,
    );
    const fired: string[] = [];
    const { scheduler } = schedulerWith(async (type) => {
      if (type === 'broken') throw new Error('no');
      fired.push(type);
    });
    await scheduler.round();
    expect(fired).toEqual(['last']);
  });
});

describe('a polluted prototype', () => {
  it('skips no turn: the jobs of all of them run', async () => {
    const org = await orgWith();
    const setup = await bench.open({ org });
    await setup.schedule('kept', { cron: '0 * * * *', missed: 'all', submission: { type: 'kept', payload: {} } });
    const [before] = await setup.schedules();
    await bench.ledger.moveClock(3 * HOUR_MS);
    const ran: string[] = [];
    const worker = await bench.open({ org });
    worker.register({ type: 'kept', handler: ({ jobId }) => void ran.push(jobId) });
    Object.defineProperty(Object.prototype, POISON, { value: 1, enumerable: true, configurable: true });
    await worker.start();
    await until(
      'the schedule has moved to its next time',
      async () => ((await worker.schedules())[0]?.nextAt as Date) > (before?.nextAt as Date),
    );
    Reflect.deleteProperty(Object.prototype, POISON);
    await until(
      'the schedule has fired three times',
      () => ran.length,
      (count) => count >= 3,
    );
  });
});

describe('delays after failures', () => {
  it('last longer with each failure, within five minutes, and end with a success', () => {
    let nowMs = 0;
    const delays = new FailureDelays(PAUSES.itemFailed, () => nowMs);
    for (let failures = 1; failures <= 40; failures++) {
      delays.failed('a');
      expect([delays.isWaiting('a'), delays.isWaiting('b')]).toEqual([true, false]);
      nowMs += Math.min(300_000, 1_000 * 2 ** (failures - 1));
      expect(delays.isWaiting('a')).toBe(false);
    }
    delays.succeeded('a');
    delays.failed('a');
    nowMs += 1_000;
    expect(delays.isWaiting('a')).toBe(false);
  });

  it('forget the oldest of more than ten thousand', () => {
    const delays = new FailureDelays(PAUSES.itemFailed, () => 0);
    for (let n = 0; n <= 10_000; n++) delays.failed(`n${n}`);
    expect([delays.isWaiting('n0'), delays.isWaiting('n1'), delays.isWaiting('n10000')]).toEqual([false, true, true]);
  });
});
