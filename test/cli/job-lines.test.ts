/** What a person and a program see of a failed attempt: the line of the command, the line of the log, or both. */
import { afterEach, describe, expect, it } from 'vitest';
import { reportJobs } from '../../src/cli/job-reports.ts';
import { Output } from '../../src/cli/output.ts';
import { type EngineEvents, EventHub } from '../../src/engine/events.ts';
import { logJobs } from '../../src/platform/job-lines.ts';
import { createLog } from '../../src/telemetry/log.ts';

const streams = [process.stdout, process.stderr];
const before = streams.map(({ isTTY }) => isTTY);
afterEach(() => {
  for (const [index, stream] of streams.entries()) stream.isTTY = before[index] as boolean;
});

const facts = { jobId: 'a', orgId: 'b', type: 'mail.send', attempt: 1, correlationId: null, projectId: null };
const failed = { ...facts, state: 'retrying', failure: { code: 'SMTP_TIMEOUT', message: 'no answer', category: 'TEMPORARY' }, delayMs: 5 };

/** The lines of the command and of the log when an attempt fails and another one is lost. */
function linesOn({ stdout, stderr, json = false }: { stdout: boolean; stderr: boolean; json?: boolean }) {
  process.stdout.isTTY = stdout;
  process.stderr.isTTY = stderr;
  const out = new Output({ json, verbose: false });
  const [printed, logged]: [string[], string[]] = [[], []];
  out.answer = (_data, lines) => printed.push(...lines().map((line) => line.split(' ', 1)[0] as string));
  const events = new EventHub();
  reportJobs(events, out);
  logJobs(
    events,
    createLog(({ message }) => logged.push(message), { least: 'warn' }),
    out,
  );
  events.emit('failed', failed as unknown as EngineEvents['failed']);
  events.emit('lost', facts as unknown as EngineEvents['lost']);
  return { printed, logged };
}

describe('a failed attempt', () => {
  it('has one line on a terminal', () => {
    expect(linesOn({ stdout: true, stderr: true })).toEqual({ printed: ['failed', 'lost'], logged: [] });
  });

  it.each([
    { stdout: false, stderr: true },
    { stdout: true, stderr: false },
    { stdout: false, stderr: false },
    { stdout: true, stderr: true, json: true },
  ])('has a line in the log where a person does not see both: %o', (where) => {
    expect(linesOn(where)).toEqual({ printed: ['failed', 'lost'], logged: ['job.failed', 'job.lost'] });
  });
});

it('a job that was cancelled before its rescue is not logged as failed [FR-16.31]', () => {
  const events = new EventHub();
  const logged: object[] = [];
  const log = createLog(({ message, level, next_state }) => logged.push({ message, level, next_state }), { least: 'debug' });
  logJobs(events, log, { showsJobs: false });
  events.emit('rescued', { ...failed, state: 'cancelled', delayMs: null } as unknown as EngineEvents['rescued']);
  expect(logged).toEqual([{ message: 'job.cancelled', level: 'debug', next_state: 'cancelled' }]);
});
