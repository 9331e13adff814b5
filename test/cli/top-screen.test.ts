import { describe, expect, it } from 'vitest';
import { textWidth } from '../../src/cli/text-width.ts';
import { topScreen } from '../../src/cli/top-screen.ts';
import type { Overview } from '../../src/services/queues/overview.ts';

const AT = new Date('2026-01-02T03:04:05.678Z');

const worker = (name: string, running: number): Overview['workers'][number] =>
  ({ name, status: 'alive', running, slots: 10, silentMs: 1_500, startedAt: AT, host: 'h', pid: 1, queues: ['*'], types: ['t'] }) as never;

function overview(given: Partial<Overview> = {}): Overview {
  return {
    rates: [{ type: 'mail.send', submitted: 1_234.4, completed: 99.96, retried: 0.5, failed: 0 }],
    queues: [
      { name: 'q:default', order: 'fair', pausedAt: null, waiting: 12_000, running: 20, oldestWaitingMs: 65_000 },
      { name: 'q:planning', order: 'fifo', pausedAt: AT, waiting: 6_000, running: 0, oldestWaitingMs: 1_000 },
      { name: 'q:exports', order: 'fifo', pausedAt: null, waiting: 0, running: 0, oldestWaitingMs: null },
    ],
    workers: [worker('a:1', 3), worker('b:2', 10)],
    failures: [{ at: AT, type: 'mail.send', jobId: 'j', state: 'dead_letter', code: 'BUSY', message: 'the provider is busy' }],
    ...given,
  };
}

describe('the live view', () => {
  it('shows rates, queues, workers, the oldest job and failures on 80 by 24', () => {
    expect(topScreen({ shown: { at: AT, overview: overview(), org: null } }, { columns: 80, rows: 24 })).toEqual([
      '03:04:05 UTC  all orgs  workers 2  slots 13/20  waiting 18000, oldest 1 min',
      'per second: in 1234  done 100.0  retried 0.5  failed 0.0',
      '',
      'QUEUE                    WAITING   RUNNING   OLDEST',
      'q:default                  12000        20    1 min  ██████████████████',
      'q:planning                  6000         0      1 s paused █████████',
      '',
      'TYPE                                  IN/S    DONE/S   RETRY/S    FAIL/S',
      'mail.send                             1234     100.0       0.5       0.0',
      '',
      'WORKER                           STATUS     RUNNING    HEARTBEAT',
      'b:2                              alive        10/10      1 s ago',
      'a:1                              alive         3/10      1 s ago',
      '',
      'LAST FAILURES',
      '03:04:05 dead_letter mail.send BUSY: the provider is busy',
    ]);
  });

  it.each([
    [80, 24],
    [120, 40],
    [40, 10],
    [1, 1],
  ])('never has more or longer lines than a terminal of %i by %i, however much there is', (columns, rows) => {
    const many = overview({
      rates: Array.from({ length: 300 }, (_, n) => ({ type: `type.${n}`.repeat(20), submitted: n, completed: 0, retried: 0, failed: 0 })),
      queues: Array.from({ length: 200 }, (_, n) => ({
        ...{
          name: `q:${n}`.repeat(30),
          order: 'fair' as const,
          pausedAt: null,
          waiting: 10 ** 9 + n,
          running: n,
          oldestWaitingMs: 10 ** 12,
        },
      })),
      workers: Array.from({ length: 200 }, (_, n) => worker(`w${n}`.repeat(40), n)),
      failures: Array.from({ length: 20 }, () => ({
        at: AT,
        type: 't'.repeat(100),
        jobId: 'j',
        state: 'failed',
        code: 'C',
        message: 'm'.repeat(9_999),
      })),
    });
    const lines = topScreen({ shown: { at: AT, overview: many, org: 'acme' } }, { columns, rows });
    expect(lines.length).toBeLessThan(Math.max(10, rows) + (rows < 20 ? 10 : 0));
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(Math.max(40, columns));
    expect(lines.join('\n')).toMatch(/… and \d+ more/);
  });

  it('shows names and messages from outside without what they would do to a terminal', () => {
    const hostile = '\u001b[2Jevil\n\rname\u0000';
    const shown = topScreen(
      {
        shown: {
          at: AT,
          org: null,
          overview: overview({
            rates: [{ type: hostile, submitted: 1, completed: 0, retried: 0, failed: 0 }],
            failures: [{ at: AT, type: hostile, jobId: 'j', state: 'failed', code: hostile, message: hostile }],
          }),
        },
      },
      { columns: 200, rows: 50 },
    ).join('\n');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be there
    expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
    expect(shown).not.toContain('evil\n');
  });

  it.each([
    ['wide', '請求書の送信を行う仕事請求書の送信を行う仕事'],
    ['a picture of several characters', '👩‍👩‍👧‍👦 ❤️ 🚀'.repeat(6)],
    ['accented by a second character', 'e\u0301'.repeat(60)],
    ['a control character', '\u001b[31m\u0007\t'.repeat(9)],
  ])('keeps its columns and its width where names are %s', (_, name) => {
    const wide = overview({
      rates: [{ type: name, submitted: 1, completed: 2, retried: 3, failed: 4 }],
      queues: [{ name, order: 'fair', pausedAt: null, waiting: 7, running: 8, oldestWaitingMs: 9_000 }],
      workers: [worker(name, 5)],
      failures: [{ at: AT, type: name, jobId: 'j', state: 'failed', code: 'C', message: name.repeat(5) }],
    });
    const lines = topScreen({ shown: { at: AT, org: name, overview: wide } }, { columns: 80, rows: 24 });
    for (const line of lines) expect(textWidth(line), line).toBeLessThanOrEqual(80);
    const columnOf = (line: RegExp, cell: RegExp) => {
      const found = lines.findLast((each) => line.test(each))!;
      return textWidth(found.slice(0, found.search(cell)));
    };
    expect(columnOf(/ 9 s /, / 9 s /)).toBe(columnOf(/^QUEUE/, /OLDEST$/) + '  '.length);
    expect(columnOf(/ 4\.0$/, / 4\.0$/)).toBe(columnOf(/^TYPE/, /FAIL\/S$/) + '  '.length);
    expect(columnOf(/ alive /, /alive /)).toBe(columnOf(/^WORKER/, /STATUS/));
  });

  it('says above the last view why it is out of date, and keeps within the rows', () => {
    const lines = topScreen(
      { shown: { at: AT, overview: overview(), org: null }, notice: ['The database is away.'] },
      { columns: 80, rows: 12 },
    );
    expect(lines.slice(0, 2)).toEqual(['The database is away.', expect.stringMatching(/^03:04:05 UTC/)]);
    expect(topScreen({ shown: null, notice: ['The database is away.'] }, { columns: 80, rows: 24 })).toEqual(['The database is away.']);
  });

  it('says what to do where nothing happens', () => {
    const nothing = topScreen(
      { shown: { at: AT, org: null, overview: { rates: [], queues: [], workers: [], failures: [] } } },
      { columns: 80, rows: 24 },
    );
    expect(nothing).toContain('WORKERS: none. Start one with "millrace work".');
    expect(nothing).toContain('QUEUES: nothing waits or runs');
    expect(nothing).toContain('FAILURES: none in the last hour');
  });
});
