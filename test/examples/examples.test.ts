import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { migratedDatabase } from '../ledger/test-database.ts';

const FOLDER = new URL('../../examples/', import.meta.url);

type Run = { code: number | null; lines: string[]; errors: string };

/** What each program prints, word for word; a program without a row here fails the last test. */
const EXPECTED: Record<string, { proves: string; lines: string[] }> = {
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
    proves: 'a retry goes on from the last checkpoint [GM-5.13] [GM-5.14] [GA-5.22] [GA-5.23]',
    lines: ['attempt 1 begins at row 0', 'attempt 2 begins at row 6', 'completed: each of 10 rows imported once: true'],
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
};

for (const [file, { proves, lines }] of Object.entries(EXPECTED)) {
  test.concurrent(`${file}: ${proves}`, async ({ expect, onTestFinished }) => {
    const database = await migratedDatabase();
    onTestFinished(database.drop);
    const ran = await runExample(file, database.url);
    expect(ran.errors).toBe('');
    expect(ran.lines).toEqual(lines);
    expect(ran.code).toBe(0);
  });
}

test('every example is run here and listed in its README', () => {
  const programs = readdirSync(FOLDER).filter((file) => file.endsWith('.ts'));
  expect(programs.toSorted()).toEqual(Object.keys(EXPECTED).toSorted());
  const readme = readFileSync(new URL('README.md', FOLDER), 'utf8');
  expect(programs.filter((file) => !readme.includes(`](${file})`))).toEqual([]);
});

function runExample(file: string, databaseUrl: string): Promise<Run> {
  const path = fileURLToPath(new URL(file, FOLDER));
  const env = { ...process.env, DATABASE_URL: databaseUrl, NODE_NO_WARNINGS: '1' };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [path], { env, timeout: 45_000 }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode, lines: stdout.trimEnd().split('\n'), errors: stderr });
    });
  });
}
