/** A submission is answered when it is durable, although the statement that writes it does not flush the log. */
import { expect, it } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { flushLog } from '../../src/ledger/history/flush-log.ts';
import { pathOf, useBench } from '../library/fixture.ts';

const bench = useBench();

it('the flush behind a submission covers everything that was written before it on any connection', async () => {
  const { db } = bench.ledger;
  const written = `SELECT set_config('synchronous_commit', 'off', true), pg_logical_emit_message(true, 'test', 'text') AS lsn`;
  for (let round = 0; round < 20; round++) {
    const { lsn } = (await db.api.query(written)).rows[0];
    await flushLog(db.submitting);
    const { rows } = await db.api.query('SELECT pg_current_wal_flush_lsn() >= $1::pg_lsn AS is_flushed', [lsn]);
    expect(rows[0]).toEqual({ is_flushed: true });
  }
});

it('a submission whose flush is not answered may have happened, and its key finds the one job', async () => {
  const millrace = await bench.open();
  const job = { type: 'flushed', payload: {}, idempotencyKey: 'once' };
  const cut: Queryable = {
    isOurs: true,
    query: () => Promise.reject(new Error('Connection terminated unexpectedly')),
  };
  const failure = await flushLog(cut).catch((error) => error);
  expect(isAppError(failure, 'UNAVAILABLE') && failure.mayHaveHappened).toBe(true);
  const first = await millrace.submit(job);
  const second = await millrace.submit(job);
  expect(second.jobId).toBe(first.jobId);
  expect(await pathOf(millrace, first.jobId as string)).toEqual(['pending>scheduled:submitted']);
});
