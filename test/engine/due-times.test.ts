import { describe, expect, it } from 'vitest';
import type { Missed } from '../../src/core/schedule-words.ts';
import { dueTimes, firstRun } from '../../src/engine/upkeep/scheduler.ts';

const at = (time: string) => new Date(`2031-03-05T${time}Z`);
const hourly = (missed: Missed, nextAt: Date) => ({ cron: '0 * * * *', timeZone: 'UTC', missed, nextAt });

describe('the times of a schedule that are due', () => {
  it('are one when it comes on time, whatever the policy', () => {
    for (const missed of ['none', 'one', 'all'] as const) {
      const due = dueTimes(hourly(missed, at('10:00:00')), at('10:00:01'));
      expect(due).toEqual({ times: [at('10:00:00')], nextAt: at('11:00:00') });
    }
  });

  it('are dropped under "none" when no scheduler was running', () => {
    expect(dueTimes(hourly('none', at('10:00:00')), at('13:30:00'))).toEqual({ times: [], nextAt: at('14:00:00') });
  });

  it('are still the latest under "none" when that one is on time', () => {
    expect(dueTimes(hourly('none', at('10:00:00')), at('13:00:05'))).toEqual({
      times: [at('13:00:00')],
      nextAt: at('14:00:00'),
    });
  });

  it('are the latest one under "one"', () => {
    expect(dueTimes(hourly('one', at('10:00:00')), at('13:30:00'))).toEqual({
      times: [at('13:00:00')],
      nextAt: at('14:00:00'),
    });
  });

  it('are all of them under "all"', () => {
    const { times, nextAt } = dueTimes(hourly('all', at('10:00:00')), at('13:30:00'));
    expect(times).toEqual([at('10:00:00'), at('11:00:00'), at('12:00:00'), at('13:00:00')]);
    expect(nextAt).toEqual(at('14:00:00'));
  });

  it('are caught up in rounds under "all", none lost between them', () => {
    const everyMinute = { cron: '* * * * *', timeZone: 'UTC', missed: 'all' as const, nextAt: at('00:00:00') };
    const first = dueTimes(everyMinute, at('02:30:00'));
    expect(first.times).toHaveLength(100);
    const second = dueTimes({ ...everyMinute, nextAt: first.nextAt }, at('02:30:00'));
    expect(second.times).toHaveLength(51);
    expect(second.nextAt).toEqual(at('02:31:00'));
  });

  it('follow the wall clock of the time zone over a change of summer time', () => {
    const daily = {
      cron: '30 8 * * *',
      timeZone: 'Europe/Berlin',
      missed: 'all' as const,
      nextAt: new Date('2031-03-29T07:30:00Z'),
    };
    const { times } = dueTimes(daily, new Date('2031-03-31T07:00:00Z'));
    expect(times.map((time) => time.toISOString())).toEqual([
      '2031-03-29T07:30:00.000Z',
      '2031-03-30T06:30:00.000Z',
      '2031-03-31T06:30:00.000Z',
    ]);
  });
});

describe('a cron expression', () => {
  it('is refused when it cannot be read, names no zone, or never comes due', () => {
    const from = at('00:00:00');
    for (const [cron, timeZone] of [
      ['61 * * * *', 'UTC'],
      ['often', 'UTC'],
      ['0 * * * *', 'Mars/Olympus'],
      ['0 0 30 2 *', 'UTC'],
    ] as const) {
      expect(() => firstRun({ cron, timeZone, from })).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
    }
  });

  it('may be a nickname', () => {
    expect(firstRun({ cron: '@daily', timeZone: 'UTC', from: at('12:00:00') })).toEqual(new Date('2031-03-06T00:00:00Z'));
  });
});
