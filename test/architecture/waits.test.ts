import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const TESTS = fileURLToPath(new URL('..', import.meta.url));

/** Timers, polls and loops that ask without a pause. A statement that sleeps in the database is a fault that a test makes. */
const RAW_WAIT = [
  /\bset(?:Timeout|Interval)\b/,
  /\btimers\/promises\b/,
  /\bsleep\(/,
  /\bexpect\.poll\b/,
  /\bvi\.wait(?:For|Until)\b/,
  /\bwhile \(.*\bawait\b.*\);$/,
  /\bwhile \(.*setImmediate/,
];

/** Files that have a timer and wait for nothing with it. */
const NO_WAIT: Record<string, string> = {
  'until.ts': 'the one helper that waits',
  'architecture/waits.test.ts': 'this list',
  'cli/work.test.ts': 'a module of a user keeps the program alive',
  'egress/bounds.test.ts': 'a peer sends its bytes slowly',
  'egress/fetch.test.ts': 'a peer sends its bytes slowly',
  'egress/proxies.test.ts': 'the timers are replaced by fake ones',
  'egress/response-body.test.ts': 'the timers are replaced by fake ones',
  'handlers/execution-kinds.test.ts': 'the name of a module that the code imports',
  'http/body-memory.test.ts': 'a peer sends its bytes slowly',
  'http/bounds.test.ts': 'a peer sends its bytes slowly',
  'http/docs-browser.ts': 'the page under test has timers',
  'postgres/os-lock.test.ts': 'a program stays alive until it is killed',
};

/** Loops in which each turn moves the work on by itself, or waits for a signal. */
const WORKS = /\b(?:release|releaseDependents|round|heartbeats)\(/;

it('a test that waits uses until(), which says what it waited for and what it saw last', () => {
  const files = readdirSync(TESTS, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const found = files.flatMap((path) => {
    if (Object.hasOwn(NO_WAIT, path)) return [];
    const lines = readFileSync(join(TESTS, path), 'utf8').split('\n');
    const isRaw = (line: string) => RAW_WAIT.some((pattern) => pattern.test(line)) && !WORKS.test(line);
    return lines.flatMap((line, index) => (isRaw(line) ? [`${path}:${index + 1} ${line.trim()}`] : []));
  });
  expect(found).toEqual([]);
});
