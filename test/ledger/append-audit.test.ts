import { expect, test } from 'vitest';
import { appendAudit } from '../../src/ledger/attempts/append-audit.ts';
import { assertOwned } from '../../src/ledger/attempts/fenced-writes.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const rowsOf = async (jobId: string) =>
  (
    await ledger.db.api.query('SELECT event, actor, performed_by, attempt FROM millrace.audit_actions WHERE job_id = $1 ORDER BY id', [
      jobId,
    ])
  ).rows;

const entry = { event: 'invoice.enriched', performedBy: 'worker:1', details: '{}' };

test('a row of a handler lands only while its attempt has the lease', async () => {
  const job = await ledger.start(await ledger.submitOne({ actor: 'api_key:4kJ' }));
  expect(await appendAudit(ledger.db.workers, { ...job, ...entry }, null)).toEqual({ landed: true });
  await ledger.settle(job, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
  expect(await appendAudit(ledger.db.workers, { ...job, ...entry }, null)).toEqual({ landed: false });
  const next = await ledger.start(job);
  expect(await appendAudit(ledger.db.workers, { ...job, ...entry }, null)).toEqual({ landed: false });
  expect(await appendAudit(ledger.db.workers, { ...next, ...entry }, null)).toEqual({ landed: true });
  expect(await rowsOf(job.id)).toMatchObject([
    { event: 'invoice.enriched', actor: 'api_key:4kJ', performed_by: 'worker:1', attempt: 1 },
    { attempt: 2 },
  ]);
});

test('a row commits or is rolled back with the transaction of the handler, and lands in no other one', async () => {
  const job = await ledger.start(await ledger.submitOne());
  let transactionId: string | null = null;
  const rolledBack = inTransaction(ledger.db.workers, async (client) => {
    transactionId = await assertOwned(client, job);
    expect(await appendAudit(client, { ...job, ...entry }, transactionId)).toEqual({ landed: true });
    throw new Error('no');
  });
  await expect(rolledBack).rejects.toThrow('no');
  expect(await rowsOf(job.id)).toEqual([]);
  expect(await appendAudit(ledger.db.workers, { ...job, ...entry }, transactionId)).toEqual({ landed: false, transactionEnded: true });
  expect(await rowsOf(job.id)).toEqual([]);
});
