import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { migratedDatabase } from '../ledger/test-database.ts';
import { makeScratch, postmasterPid } from '../postgres/scratch.ts';

const FOLDER = new URL('../../examples/', import.meta.url);

type Run = { code: number | null; lines: string[]; errors: string };

/** What each program prints, word for word; a program without a row here fails the last test. */
const EXPECTED: Record<string, { proves: string; lines: string[]; env?: Record<string, string> }> = {
  '01-email-with-retries.ts': {
    proves: 'what is temporary is tried again after a growing wait, what is permanent is not [GM-2.16] [GM-2.17] [GM-2.19] [GM-5.08]',
    lines: [
      'attempt 1: BUSY, tries again in 100 ms (retrying)',
      'attempt 2: BUSY, tries again in 200 ms (retrying)',
      'ada@example.com: completed after 3 attempt(s)',
      'attempt 1: BAD_ADDRESS, gives up (failed)',
      'nowhere: failed after 1 attempt(s)',
    ],
  },
  '02-delayed.ts': {
    proves: 'a job waits for its delay or its time [GM-2.04] [GM-2.12] [GM-2.13]',
    lines: ['accepted: delayed, delayed', 'reminded after a while, not too early: true', 'reminded on time, not too early: true'],
  },
  '03-cron.ts': {
    proves: 'a schedule fires again and again, each time once',
    lines: [
      'first run is at a full second: true',
      'report 1 for north',
      'report 2 for north',
      'every time has its own key: true',
      'unscheduled: true',
    ],
  },
  '04-priorities.ts': {
    proves: 'a higher priority goes first, equals in the order of submission [GM-3.07] [GM-3.08]',
    lines: ['ran: alarm, invoice, thumbnail, second thumbnail, archive'],
  },
  '05-fan-out-fan-in.ts': {
    proves: 'a job spawns many and completes after them [GM-6.04] [GM-6.05] [GA-5.24]',
    lines: ['pages: completed, completed, completed', 'words in the book: 825'],
  },
  '06-chain.ts': {
    proves: 'steps run in sequence and a failure stops the rest [GM-6.03]',
    lines: ['did download', 'did convert', 'did publish', 'completed > completed > completed', 'did fetch', 'completed > failed > failed'],
  },
  '07-checkpoint-and-resume.ts': {
    proves: 'another worker goes on from the last checkpoint after kill -9 [GM-5.13] [GM-5.14] [GA-5.22] [GA-5.23]',
    lines: [
      'attempt 1 begins at row 0',
      'the first worker was ended by SIGKILL',
      'attempt 2 begins at row 6',
      'completed: rows 0 1 2 3 4 5 6 7 8 9, each imported once: true',
    ],
  },
  '08-progress.ts': {
    proves: 'progress is heard and stored, and a running job can be cancelled [GA-5.21]',
    lines: [
      '25 % (frame 1 of 4)',
      '50 % (frame 2 of 4)',
      '75 % (frame 3 of 4)',
      '100 % (frame 4 of 4)',
      'stored: 100 %',
      'the long one: cancelled',
    ],
  },
  '09-transactional-outbox.ts': {
    proves: 'rows and jobs are committed together or not at all',
    lines: ['not ordered: the card was refused', 'orders: [{"item":"chair","shipped":true}], jobs: 1, the job: completed'],
  },
  '10-testing-a-handler.ts': {
    proves: 'a handler is tested without waiting [GM-2.18]',
    lines: [
      'while the bank is closed: retrying',
      'an hour later: completed, attempt 2',
      'a bank that never opens: retrying, retrying, dead_letter',
    ],
  },
  '12-jobs-from-sql.ts': {
    proves: 'a trigger submits jobs in the transaction of its rows',
    lines: [
      'jobs: 2',
      'sent to ada@example.com',
      'sent to grace@example.com',
      'MR001: INVALID_REQUEST: The submission is not valid: job_type must not be empty.',
    ],
  },
  '11-unique-reindex.ts': {
    proves: 'only the newest payload runs, and no change is lost',
    lines: [
      'version 1: a new job',
      'version 2: replaces the job that waits',
      'version 3: replaces the job that waits',
      'indexing version 3',
      'version 4: a new job',
      'version 5: replaces the job that waits',
      'indexing version 5',
    ],
  },
  '13-batch-progress-bar.ts': {
    proves: 'a batch larger than one call counts its jobs exactly while it drains',
    env: { JOBS: '2500' },
    lines: [
      'submitted 2500 jobs',
      'the bar never went back: true',
      'completed 2495, failed 5 of 2500',
      'the first failure logged: warn cannot be resized {"image":499}',
    ],
  },
  '15-cron-over-dst.ts': {
    proves: 'a run in a gap of the clocks comes at its end, one in a repeated hour comes once, and handlers know the planned time',
    lines: [
      '2026-03-28T01:30:00.000Z is 2026-03-28 02:30 in Berlin',
      '2026-03-29T01:00:00.000Z is 2026-03-29 03:00 in Berlin',
      '2026-03-30T00:30:00.000Z is 2026-03-30 02:30 in Berlin',
      'as next() said: true',
      '2026-10-24T00:30:00.000Z is 2026-10-24 02:30 in Berlin',
      '2026-10-25T00:30:00.000Z is 2026-10-25 02:30 in Berlin',
      '2026-10-26T01:30:00.000Z is 2026-10-26 02:30 in Berlin',
      'as next() said: true',
    ],
  },
  '16-rate-limited-email.ts': {
    proves: 'a limit of starts keeps a provider from refusing any request',
    lines: ['60 submitted, 60 completed', 'the provider: 60 sent, 0 lost, 0 refused', 'it took at least 11 seconds: true'],
  },
  '17-one-at-a-time-per-customer.ts': {
    proves: 'jobs of one customer run one after the other, those of several customers at the same time',
    lines: [
      '50 customers, 10 jobs each: 500 completed',
      'at the same time for one customer: 0, out of order: 0',
      'several customers at the same time: true',
    ],
  },
  '18-cancel-from-another-process.ts': {
    proves: 'a request from another process aborts the signal of a running handler',
    lines: [
      'submitter: the job runs in another process',
      'worker: the signal stopped the export of orders, cancelled: true',
      'submitter: CANCEL_REQUESTED, and now the job is cancelled',
      'the worker ended with code 0',
    ],
  },
  '19-worker-under-sigterm.ts': {
    proves: 'a worker drains after SIGTERM and exits with 0, and the next one runs what waited',
    lines: [
      'the first worker: stopped by SIGTERM while invoice 1 ran, exit code 0',
      'invoice 1: completed, invoice 2: scheduled',
      'the next worker: invoice 2 is written',
      'the next worker: exit code 0',
    ],
  },
  '20-large-and-binary.ts': {
    proves: 'bytes come back as they were, up to the limits, which can be raised',
    lines: [
      'a payload of 1 MB of bytes: accepted',
      'one byte more: INVALID_REQUEST, The submission is not valid: payload is larger than 1048576 bytes.',
      'a result of 3 MB: failed, RESULT_TOO_LARGE',
      'with limits.result_size = "16mb": completed, 3 MB',
      'payload and result came back byte for byte: true',
      'a JSON result: 200000 lines',
    ],
  },
};

for (const [file, { proves, lines, env = {} }] of Object.entries(EXPECTED)) {
  test.concurrent(`${file}: ${proves}`, async ({ expect, onTestFinished }) => {
    const database = await migratedDatabase();
    onTestFinished(database.drop);
    const ran = await runExample(file, { DATABASE_URL: database.url, ...env });
    expect(ran.errors).toBe('');
    expect(ran.lines).toEqual(lines);
    expect(ran.code).toBe(0);
  });
}

test('an example starts its own server in a home without one, and its processes share it', async ({ onTestFinished }) => {
  const scratch = await makeScratch();
  onTestFinished(() => scratch.remove());
  const home = await scratch.preparedHome();
  const ran = await runExample('19-worker-under-sigterm.ts', { DATABASE_URL: undefined, MILLRACE_HOME: home });
  expect(ran).toEqual({ code: 0, lines: EXPECTED['19-worker-under-sigterm.ts']?.lines, errors: '' });
  expect(postmasterPid(home)).toBe(null);
});

test('every example is run here and listed in its README', () => {
  const programs = readdirSync(FOLDER).filter((file) => file.endsWith('.ts'));
  expect(programs.toSorted()).toEqual(Object.keys(EXPECTED).toSorted());
  const readme = readFileSync(new URL('README.md', FOLDER), 'utf8');
  expect(programs.filter((file) => !readme.includes(`](${file})`))).toEqual([]);
});

function runExample(file: string, settings: NodeJS.ProcessEnv): Promise<Run> {
  const path = fileURLToPath(new URL(file, FOLDER));
  const env = { ...process.env, ...settings, NODE_NO_WARNINGS: '1' };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [path], { env, timeout: 80_000 }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode, lines: stdout.trimEnd().split('\n'), errors: stderr });
    });
  });
}
