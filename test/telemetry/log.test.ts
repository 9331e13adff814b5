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

  it('masks secrets and e-mail addresses also where callers choose an id [AB-obs.08]', () => {
    const lines: LogLine[] = [];
    const log = createLog((line) => lines.push(line));
    const secret = 'mr_0RtEKhAbCdEfGhIjKlMn';
    for (const name of ['request_id', 'correlation_id', 'job_id', 'job_type', 'org_id', 'project_id', 'client_id'])
      for (const value of [secret, 'password=hunter2', 'ada@example.com', 'x'.repeat(5_000)]) log.info('x', { [name]: value });
    const text = JSON.stringify(lines);
    for (const hidden of [secret, 'hunter2', 'ada@', 'x'.repeat(2_001)]) expect(text).not.toContain(hidden);
    const id = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';
    log.info('x', { job_id: id, job_type: 'mail.send', correlation_id: 'order-42' });
    expect(lines.at(-1)).toMatchObject({ job_id: id, job_type: 'mail.send', correlation_id: 'order-42' });
  });

  it('masks the signature of a signed URL, and no word that only begins like it [AB-obs.08]', () => {
    const lines: LogLine[] = [];
    const log = createLog((line) => lines.push(line));
    log.warn('x', { error_message: 'GET https://files.example/a.pdf?expires=9&sig=PLANTED-1&part=2 failed', sig: 'PLANTED-2' });
    log.warn('x', { error_message: 'stopped, signal=SIGTERM' });
    expect(lines).toMatchObject([
      { error_message: 'GET https://files.example/a.pdf?expires=9&sig=[masked]&part=2 failed', sig: '[masked]' },
      { error_message: 'stopped, signal=SIGTERM' },
    ]);
  });

  it('leaves out what does not apply', () => {
    const lines: LogLine[] = [];
    createLog((line) => lines.push(line)).info('x', { job_id: undefined, client_id: 'c', other: null });
    expect(Object.keys(lines[0] as LogLine)).toEqual(['time', 'level', 'message', 'client_id']);
  });

  it('writes no line below the configured level, and does not compute its fields', () => {
    const lines: LogLine[] = [];
    const log = createLog((line) => lines.push(line), { least: 'error' });
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
