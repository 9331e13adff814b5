import { expect, test } from 'vitest';
import type { StreamName } from '../../src/core/ingest/stream.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { appendEntries, headOfStream, numberEntries, readStream, trimStream } from '../../src/ledger/ingest/streams.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const stream: StreamName = 'jobs.logs';

async function entry(n: number) {
  const orgId = '00000000-0000-4000-8000-000000000000';
  return { stream, orgId, jobId: `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`, body: { n } } as const;
}

async function readFrom(from: number): Promise<[offset: number, n: unknown][]> {
  await numberEntries(ledger.db.api, stream);
  return (await readStream(ledger.db.api, { stream, from, limit: 100 })).map(({ offset, body }) => [offset, body.n]);
}

test('a reader that continues after the last offset never skips an entry that is committed late', async () => {
  const from = await headOfStream(ledger.db.api, stream);
  const late = await ledger.db.api.connect();
  await late.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
  await appendEntries(late, [await entry(1)]);
  // Begun later and committed first.
  await appendEntries(ledger.db.api, [await entry(2)]);
  expect(await readFrom(from)).toEqual([[from, 2]]);
  await late.query('COMMIT');
  late.release();
  expect(await readFrom(from + 1)).toEqual([[from + 1, 1]]);
  expect(await headOfStream(ledger.db.api, stream)).toBe(from + 2);
});

test('many numberers at the same time give every entry one offset, without a gap', async () => {
  const from = await headOfStream(ledger.db.api, stream);
  await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      await appendEntries(ledger.db.api, [await entry(n), await entry(n)]);
      await numberEntries(ledger.db.maintenance, stream);
    }),
  );
  const offsets = (await readFrom(from)).map(([offset]) => offset);
  expect(offsets).toEqual(Array.from({ length: 80 }, (_, n) => from + n));
});

test('an entry of a transaction that is rolled back never appears', async () => {
  const from = await headOfStream(ledger.db.api, stream);
  await inTransaction(ledger.db.api, async (client) => {
    await appendEntries(client, [await entry(3)]);
    throw new Error('undo');
  }).catch(() => {});
  expect(await readFrom(from)).toEqual([]);
});

test('trimming removes old entries only, and offsets go on [FB-4.06]', async () => {
  await appendEntries(ledger.db.api, [await entry(4)]);
  await readFrom(0);
  const head = await headOfStream(ledger.db.api, stream);
  await ledger.db.api.query(`UPDATE millrace.stream_entries SET at = at - interval '31 days' WHERE stream_offset < $1`, [head - 1]);
  await trimStream(ledger.db.api, { stream, olderThanMs: 30 * 86_400_000, limit: 1_000 });
  expect((await readFrom(0)).map(([offset]) => offset)).toEqual([head - 1]);
  await appendEntries(ledger.db.api, [await entry(5)]);
  expect(await readFrom(head)).toEqual([[head, 5]]);
});

test('the streams are apart from each other', async () => {
  const [logs, tasks] = [await headOfStream(ledger.db.api, 'jobs.logs'), await headOfStream(ledger.db.api, 'jobs.tasks')];
  await appendEntries(ledger.db.api, [{ ...(await entry(6)), stream: 'jobs.tasks' }]);
  await numberEntries(ledger.db.api, 'jobs.tasks');
  expect([await headOfStream(ledger.db.api, 'jobs.logs'), await headOfStream(ledger.db.api, 'jobs.tasks')]).toEqual([logs, tasks + 1]);
});
