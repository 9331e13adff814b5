import type pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { ensurePartitions, sweepDefaultPartition } from '../../src/ledger/history/record-partitions.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';
import { moveToMidday } from './set-clock.ts';

const ledger = useLedger();
useLockPatience(ledger);
const DAY = 86_400_000;
const policy = { retentionMs: DAY };

const countIn = async (table: string): Promise<number> =>
  (await ledger.db.api.query(`SELECT count(*)::int4 AS count FROM millrace.${table}`)).rows[0].count;

async function today(): Promise<string> {
  const { rows } = await ledger.db.api.query(`SELECT to_char(millrace.clock() AT TIME ZONE 'UTC', 'YYYYMMDD') AS day`);
  return `records_${rows[0].day}`;
}

/** Days on, to a day that has no partition yet and does not end soon. */
async function moveToMissingDay(): Promise<void> {
  await ledger.moveClock(20 * DAY);
  await moveToMidday(ledger);
}

/** Locks the history as pg_dump does, until the test ends or the lock is given back. */
async function dump(): Promise<{ end(): Promise<void> }> {
  const client: pg.PoolClient = await ledger.db.api.connect();
  onTestFinished(() => client.release(true));
  await client.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
  await client.query('LOCK TABLE millrace.records IN ACCESS SHARE MODE');
  return {
    async end() {
      await client.query('COMMIT');
    },
  };
}

test('a process opens while a dump holds the history and partitions are missing; they are made afterwards', async () => {
  await moveToMissingDay();
  const held = await dump();
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
  await engine.open();
  onTestFinished(() => engine.close(0));
  expect(await ensurePartitions(ledger.db.maintenance)).toEqual({ made: [], isComplete: false });
  const job = await ledger.putJob('completed', { policy });
  expect(await countIn('records_default')).toBe(3);
  await held.end();
  const { made, isComplete } = await ensurePartitions(ledger.db.maintenance);
  expect([made, isComplete]).toEqual([expect.arrayContaining([await today()]), true]);
  expect([await countIn('records_default'), await countIn(await today())]).toEqual([0, 3]);
  expect(await ledger.eventsOf(job)).toHaveLength(3);
});

test('a day with more records than may be moved at once stays in the default partition, where they are found and pruned', async () => {
  await moveToMissingDay();
  const job = await ledger.putJob('completed', { policy });
  const { made, isComplete } = await ensurePartitions(ledger.db.maintenance, { maxMoved: 2 });
  expect([made.length, isComplete]).toEqual([7, true]);
  expect(made).not.toContain(await today());
  expect(await ledger.eventsOf(job)).toHaveLength(3);
  await ledger.moveClock(2 * DAY);
  await ledger.prune(100);
  expect(await countIn('records_default')).toBe(0);
});

test('records that pruning left in the default partition go when no job of their day is left', async () => {
  await moveToMissingDay();
  await ledger.putJob('completed', { policy });
  expect(await sweepDefaultPartition(ledger.db.maintenance)).toBe(0);
  await ledger.moveClock(2 * DAY);
  expect(await sweepDefaultPartition(ledger.db.maintenance)).toBe(0);
  await ledger.db.api.query('DELETE FROM millrace.jobs');
  const young = await ledger.submitOne();
  expect(await sweepDefaultPartition(ledger.db.maintenance, 2)).toBe(2);
  expect(await sweepDefaultPartition(ledger.db.maintenance, 2)).toBe(1);
  expect(await sweepDefaultPartition(ledger.db.maintenance, 2)).toBe(0);
  expect(await ledger.eventsOf(young)).toHaveLength(1);
});

test('no submission fails and no event is missed while the partition of the day is made', async () => {
  for (let round = 0; round < 5; round++) {
    await moveToMissingDay();
    let isMade = false;
    const submitting = async () => {
      while (!isMade) {
        const job = await ledger.submitOne();
        expect(await ledger.eventsOf(job)).toHaveLength(1);
      }
    };
    const making = async () => {
      const ensure = () => ensurePartitions(ledger.db.maintenance, { daysAhead: 0 });
      await until('the partition is there', ensure, ({ isComplete }) => isComplete);
      isMade = true;
    };
    await Promise.all([submitting(), submitting(), submitting(), making()]);
  }
});
