import { describe, expect, it } from 'vitest';
import { createLog, type LogLine } from '../../src/telemetry/log.ts';

describe('the log', () => {
  it('writes one object for each line, with its time, level, message and fields', () => {
    const lines: LogLine[] = [];
    const log = createLog((line) => lines.push(line));
    log.info('request', { request_id: 'r1', duration_ms: 5 });
    log.warn('auth failed', { reason: 'EXPIRED' });
    log.error('request');
    expect(lines).toEqual([
      { time: expect.any(String), level: 'info', message: 'request', request_id: 'r1', duration_ms: 5 },
      { time: expect.any(String), level: 'warn', message: 'auth failed', reason: 'EXPIRED' },
      { time: expect.any(String), level: 'error', message: 'request' },
    ]);
    for (const { time } of lines) expect(new Date(time).toISOString()).toBe(time);
  });

  it('leaves out what does not apply', () => {
    const lines: LogLine[] = [];
    createLog((line) => lines.push(line)).info('x', { job_id: undefined, client_id: 'c', other: null });
    expect(Object.keys(lines[0] as LogLine)).toEqual(['time', 'level', 'message', 'client_id']);
  });

  it('writes no line below the configured level, and does not compute its fields', () => {
    const lines: LogLine[] = [];
    const log = createLog((line) => lines.push(line), 'error');
    const asked: string[] = [];
    for (const level of ['info', 'warn', 'error'] as const) {
      log[level]('x', () => {
        asked.push(level);
        return { reason: level };
      });
    }
    expect(asked).toEqual(['error']);
    expect(lines).toMatchObject([{ level: 'error', message: 'x', reason: 'error' }]);
  });
});
