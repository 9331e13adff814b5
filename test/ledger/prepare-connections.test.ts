import { expect, onTestFinished, test } from 'vitest';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import { prepareSubmitting, prepareWorking } from '../../src/ledger/jobs/prepare-connections.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

test('statements that are sent ahead succeed and write nothing', async () => {
  const sent: { name: string; failed: boolean }[] = [];
  observeStatements(({ name, failed }) => {
    // An engine of another file in this process may still send its last hint.
    if (name !== 'millrace_notify') sent.push({ name, failed });
  });
  onTestFinished(() => observeStatements(null));
  const before = await contents();
  await prepareSubmitting(ledger.db);
  await prepareWorking(ledger.db);
  expect(sent.filter(({ failed }) => failed)).toEqual([]);
  expect(new Set(sent.map(({ name }) => name))).toEqual(
    new Set(
      ['submit_alike_jobs', 'submit_alike_jobs_unflushed', 'submit_started_job', 'claim_and_start', 'complete_jobs'].map(
        (name) => `millrace_${name}`,
      ),
    ),
  );
  expect(await contents()).toEqual(before);
});

/** How many rows each table has that a job is written to, and whether a number was drawn. */
async function contents(): Promise<unknown> {
  const tables = ['jobs', 'ready', 'claims', 'records', 'releases'];
  const rows = tables.map((table) => `(SELECT count(*) FROM millrace.${table}) AS ${table}`);
  const numbers = ['job_seq', 'lease_seq', 'record_id'].map((name) => `(SELECT is_called FROM millrace.${name}) AS ${name}`);
  return (await ledger.db.maintenance.query(`SELECT ${[...rows, ...numbers].join(', ')}`)).rows[0];
}
