import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as locks from '../../src/ledger/driver/advisory-locks.ts';
import { readSourceTree } from '../architecture/source-tree.ts';

const HOME = 'src/ledger/driver/advisory-locks.ts';
const TAKEN = /\bpg_(?:try_)?advisory_\w+/;
const MIGRATIONS = new URL('../../src/ledger/migrations/', import.meta.url);

/** Files that take or release an advisory lock by SQL of their own. */
const takersIn = (files: Iterable<readonly [string, string]>): string[] =>
  Array.from(files, ([path, text]) => (path !== HOME && TAKEN.test(text) ? path : null)).filter((path) => path !== null);

/** `millrace.submit` is in the database and cannot call our functions, so it repeats this lock. */
const OF_SUBMIT = locks.shareLock(
  locks.keyBucketLock('(uuid_hash(owner) << 6) | (hashtext(key_scope || chr(10) || submit.idempotency_key) & 63)'),
);

test('only advisory-locks.ts takes advisory locks', () => {
  const read = (file: string) => readFileSync(new URL(file, MIGRATIONS), 'utf8').replace(OF_SUBMIT, '');
  const migrations = readdirSync(MIGRATIONS).map((file) => [file, read(file)] as const);
  expect(takersIn([...readSourceTree('src'), ...migrations])).toEqual([]);
  expect(readSourceTree('src').get(HOME)).toMatch(TAKEN);
});

test('a file that takes a lock with a number of its own is found', () => {
  const planted = [
    ['src/a.ts', '`SELECT pg_advisory_xact_lock(42)`'],
    ['src/b.ts', "'SELECT pg_try_advisory_lock($1)'"],
    ['src/c.ts', "'SELECT pg_locks'"],
  ] as const;
  expect(takersIn(planted)).toEqual(['src/a.ts', 'src/b.ts']);
});

test('no two locks share a key', () => {
  const keys = Object.values(locks).filter((key) => typeof key === 'number');
  expect(keys.length).toBeGreaterThanOrEqual(8);
  expect(new Set(keys).size).toBe(keys.length);
  const classes = [locks.workerLock('1'), locks.keyBucketLock('1')];
  expect(new Set(classes).size).toBe(classes.length);
});
