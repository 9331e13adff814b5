import { Cron } from 'croner';
import { describe, expect, it } from 'vitest';
import { ZoneClock } from '../../src/core/zone-clock.ts';
import { CronTimes } from '../../src/engine/upkeep/cron-times.ts';
import { dueTimes } from '../../src/engine/upkeep/scheduler.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** The times of an expression from one instant to another. */
function timesOf(cron: string, timeZone: string, [from, to]: readonly [string, string]): string[] {
  const times = new CronTimes({ cron, timeZone });
  const found: string[] = [];
  for (let at = times.next(new Date(from)); at !== null && at <= new Date(to); at = times.next(at))
    found.push(at.toISOString().slice(0, 16));
  return found;
}

const BERLIN_SPRING = ['2026-03-28T12:00:00Z', '2026-03-30T12:00:00Z'] as const;
const BERLIN_AUTUMN = ['2026-10-24T12:00:00Z', '2026-10-26T12:00:00Z'] as const;

describe('a run that falls into a gap of the clocks', () => {
  it.each([
    ['Europe/Berlin', '30 2 * * *', BERLIN_SPRING, ['2026-03-29T01:00', '2026-03-30T00:30']],
    ['Europe/Berlin', '30 2,14 * * *', BERLIN_SPRING, ['2026-03-28T13:30', '2026-03-29T01:00', '2026-03-29T12:30', '2026-03-30T00:30']],
    ['Europe/Berlin', '0,30 2 29 * *', BERLIN_SPRING, ['2026-03-29T01:00']],
    ['America/New_York', '30 2 * * *', ['2026-03-07T12:00:00Z', '2026-03-09T12:00:00Z'], ['2026-03-08T07:00', '2026-03-09T06:30']],
    ['Australia/Lord_Howe', '15 2 * * *', ['2026-10-03T00:00:00Z', '2026-10-04T23:00:00Z'], ['2026-10-03T15:30', '2026-10-04T15:15']],
    ['America/Sao_Paulo', '0 0 * * *', ['2018-11-03T12:00:00Z', '2018-11-05T12:00:00Z'], ['2018-11-04T03:00', '2018-11-05T02:00']],
    ['Pacific/Apia', '0 12 30 12 *', ['2011-12-28T00:00:00Z', '2012-01-02T00:00:00Z'], ['2011-12-30T10:00']],
  ] as const)('in %s, %s comes at its end', (zone, cron, span, expected) => {
    expect(timesOf(cron, zone, span)).toEqual(expected);
  });

  it('is one run, however many times the gap swallows', () => {
    expect(timesOf('*/10 2 * * *', 'Europe/Berlin', ['2026-03-29T00:00:00Z', '2026-03-29T23:00:00Z'])).toEqual(['2026-03-29T01:00']);
  });
});

describe('a run in an hour that the clocks repeat', () => {
  it.each([
    ['Europe/Berlin', '30 2 * * *', BERLIN_AUTUMN, ['2026-10-25T00:30', '2026-10-26T01:30']],
    ['Europe/Berlin', '0,30 2 25 * *', BERLIN_AUTUMN, ['2026-10-25T00:00', '2026-10-25T00:30']],
    ['America/New_York', '30 1 * * *', ['2026-10-31T12:00:00Z', '2026-11-02T12:00:00Z'], ['2026-11-01T05:30', '2026-11-02T06:30']],
    ['Australia/Lord_Howe', '45 1 * * *', ['2026-04-04T00:00:00Z', '2026-04-05T23:00:00Z'], ['2026-04-04T14:45', '2026-04-05T15:15']],
  ] as const)('in %s, %s comes once, the first time', (zone, cron, span, expected) => {
    expect(timesOf(cron, zone, span)).toEqual(expected);
  });

  it('comes again if the expression is for every hour', () => {
    const hours = timesOf('0 * * * *', 'Europe/Berlin', ['2026-10-24T23:30:00Z', '2026-10-25T02:30:00Z']);
    expect(hours).toEqual(['2026-10-25T00:00', '2026-10-25T01:00', '2026-10-25T02:00']);
    expect(timesOf('* * * * *', 'Europe/Berlin', ['2026-10-25T00:00:00Z', '2026-10-25T02:00:00Z'])).toHaveLength(120);
  });

  it('is passed over at once, also with a run every second', () => {
    const times = new CronTimes({ cron: '* * 2 * * *', timeZone: 'Europe/Berlin' });
    expect(times.next(new Date('2026-10-25T01:00:00Z'))).toEqual(new Date('2026-10-26T01:00:00Z'));
  });
});

// The minute before which the clocks of a zone changed, or will.
const CHANGES = [
  ['Europe/Berlin', '2026-03-29T01:00:00Z'],
  ['Europe/Berlin', '2026-10-25T01:00:00Z'],
  ['America/New_York', '2026-11-01T06:00:00Z'],
  ['Australia/Lord_Howe', '2026-10-03T15:30:00Z'],
  ['Australia/Lord_Howe', '2026-04-04T15:00:00Z'],
  ['Antarctica/Troll', '2026-10-25T01:00:00Z'],
  ['Pacific/Chatham', '2026-04-04T14:00:00Z'],
  ['UTC', '2026-04-04T14:00:00Z'],
] as const;
const EXPRESSIONS = [
  '30 2 * * *',
  '*/7 * * * *',
  '*/15 2 * * *',
  '15 * * * *',
  '45 1-3 * * *',
  '0 0 * * *',
  '59 */2 * * *',
  '5,35 0-23 * * *',
];

/** The same by looking at every minute around the change. */
function everyMinute(cron: string, zone: ZoneClock, [fromMs, toMs]: readonly [number, number]): number[] {
  const minutes = new Map<number, number[]>();
  for (let ms = fromMs - 4 * HOUR_MS; ms <= toMs + 4 * HOUR_MS; ms += MINUTE_MS) {
    const wall = zone.wallAt(ms);
    minutes.set(wall, [...(minutes.get(wall) ?? []), ms]);
  }
  const walls = [...minutes.keys()].sort((left, right) => left - right);
  const isHourly = /^\S+ (\*|0-23) /.test(cron);
  const found = new Set<number>();
  const expression = new Cron(cron, { timezone: 'UTC', paused: true });
  for (let wall = expression.nextRun(new Date(walls[0] as number)); wall !== null; wall = expression.nextRun(wall)) {
    if (wall.getTime() > (walls.at(-1) as number)) break;
    const shown = minutes.get(wall.getTime()) ?? minutes.get(walls.find((each) => each > wall.getTime()) as number) ?? [];
    for (const ms of isHourly && minutes.has(wall.getTime()) ? shown : shown.slice(0, 1)) found.add(ms);
  }
  return [...found].filter((ms) => ms > fromMs && ms <= toMs).sort((left, right) => left - right);
}

it.each(CHANGES)('the times around the change in %s at %s are those that a look at every minute finds', (timeZone, change) => {
  const span = [Date.parse(change) - 26 * HOUR_MS, Date.parse(change) + 26 * HOUR_MS] as const;
  const zone = new ZoneClock(timeZone);
  for (const cron of EXPRESSIONS) {
    const expected = everyMinute(cron, zone, span);
    const times = new CronTimes({ cron, timeZone });
    const found: number[] = [];
    for (let at = times.next(new Date(span[0])); at !== null && at.getTime() <= span[1]; at = times.next(at)) found.push(at.getTime());
    expect([cron, found]).toEqual([cron, expected]);
    for (let ms = span[0]; ms < span[1] - 25 * HOUR_MS; ms += 13 * MINUTE_MS + 1)
      expect([cron, ms, times.next(new Date(ms))?.getTime()]).toEqual([cron, ms, expected.find((each) => each > ms)]);
  }
});

it('runs that were missed over a change of the clocks are those that the rule gives', () => {
  const missed = { cron: '30 2 * * *', timeZone: 'Europe/Berlin', missed: 'all', nextAt: new Date('2026-03-28T01:30:00Z') } as const;
  const { times, nextAt } = dueTimes(missed, new Date('2026-03-30T12:00:00Z'));
  expect([...times, nextAt].map((time) => time.toISOString().slice(0, 16))).toEqual([
    ...['2026-03-28T01:30', '2026-03-29T01:00', '2026-03-30T00:30', '2026-03-31T00:30'],
  ]);
});
