import { beforeAll, expect, test } from 'vitest';
import { analyzeHistory } from '../../src/ledger/history/analyze-history.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

/** Autovacuum counts the rows of its own moment, and would overwrite the count of a test. */
beforeAll(async () => {
  await ledger.db.api.query(`DO $$ DECLARE part regclass; BEGIN
    FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'millrace.records'::regclass LOOP
      EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', part);
    END LOOP; END $$`);
});

/** Counted at once, not with the next report of the session. */
const put = (count: number) =>
  ledger.db.api.query(
    `SELECT pg_stat_force_next_flush();
     INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
     SELECT n, now(), gen_random_uuid(), 'pending', 'scheduled', 2, 'x', 'submitted', ARRAY[n] FROM generate_series(1, ${count}) n`,
  );

const isKnown = async (): Promise<boolean> => {
  const text = `SELECT FROM pg_stats WHERE schemaname = 'millrace' AND tablename = 'records' AND attname = 'id' AND inherited`;
  return (await ledger.db.api.query(text)).rowCount === 1;
};
const analyze = () => analyzeHistory(ledger.db.maintenance);

test('the history as a whole is analysed once it has rows, again when it has grown tenfold, and not in between', async () => {
  expect(await analyze()).toBe(false);
  await put(2_000);
  expect(await analyze()).toBe(true);
  expect(await isKnown()).toBe(true);
  await put(2_000);
  expect(await analyze()).toBe(false);
  await put(20_000);
  expect(await analyze()).toBe(true);
  expect(await analyze()).toBe(false);
});

test('the connection is given back as it was', async () => {
  const bounds = await ledger.db.maintenance.query('SHOW statement_timeout');
  expect(bounds.rows).toEqual([{ statement_timeout: '30s' }]);
});
