import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { StreamName } from '../../src/core/ingest/stream.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { appendEntries, appendLines, headOfStream, numberEntries, readStream, trimStream } from '../../src/ledger/ingest/streams.ts';
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

async function ingestJob(): Promise<string> {
  const id = randomUUID();
  await ledger.db.api.query(
    `INSERT INTO millrace.ingest_jobs (id, org_id, job_type, bucket, manifest_sha256, resource_count, resource_total, stored_bytes, log_offset, actor,
       created_at, updated_at)
     SELECT $1, o.id, 'default', 'bucket', '', 0, 0, 0, 0, 'test', now(), now() FROM millrace.orgs o ORDER BY o.id LIMIT 1`,
    [id],
  );
  return id;
}

const lines = (jobId: string, ...numbers: number[]) => numbers.map((n) => ({ jobId, at: new Date(), body: { n } }));

test('log lines get their offsets when they are written', async () => {
  const jobId = await ingestJob();
  const from = await headOfStream(ledger.db.api, stream);
  expect(await appendLines(ledger.db.workers, lines(jobId, 1, 2))).toEqual({ waits: false });
  expect(await headOfStream(ledger.db.api, stream)).toBe(from + 2);
  expect((await readStream(ledger.db.api, { stream, from, limit: 100 })).map(({ offset, body }) => [offset, body.n])).toEqual([
    [from, 1],
    [from + 1, 2],
  ]);
});

test('log lines stay behind an entry that was committed before and has no offset yet', async () => {
  const jobId = await ingestJob();
  const from = await headOfStream(ledger.db.api, stream);
  await appendEntries(ledger.db.api, [await entry(7)]);
  expect(await appendLines(ledger.db.workers, lines(jobId, 8))).toEqual({ waits: true });
  expect(await readFrom(from)).toEqual([
    [from, 7],
    [from + 1, 8],
  ]);
  expect(await appendLines(ledger.db.workers, lines(jobId, 9))).toEqual({ waits: false });
  expect(await readFrom(from + 2)).toEqual([[from + 2, 9]]);
});

test('a line of a job that was removed leaves no gap', async () => {
  const jobId = await ingestJob();
  const from = await headOfStream(ledger.db.api, stream);
  await appendLines(ledger.db.workers, [...lines(jobId, 1), ...lines(randomUUID(), 2), ...lines(jobId, 3)]);
  expect(await readFrom(from)).toEqual([
    [from, 1],
    [from + 1, 3],
  ]);
});

test('writers of lines, writers of entries and numberers at the same time leave no gap, and lines of a writer keep their order', async () => {
  const from = await headOfStream(ledger.db.api, stream);
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      const jobId = await ingestJob();
      for (let n = 0; n < 10; n++) {
        await appendLines(ledger.db.workers, lines(jobId, writer * 100 + n * 2, writer * 100 + n * 2 + 1));
        if (n % 3 === writer % 3) await appendEntries(ledger.db.api, [await entry(1_000 + writer)]);
        if (n % 4 === writer % 4) await numberEntries(ledger.db.maintenance, stream);
      }
    }),
  );
  await numberEntries(ledger.db.api, stream);
  const found = await readStream(ledger.db.api, { stream, from, limit: 1_000 });
  expect(found.map(({ offset }) => offset)).toEqual(found.map((_, index) => from + index));
  for (let writer = 0; writer < 8; writer++) {
    const own = found.map(({ body }) => body.n as number).filter((n) => n < 1_000 && Math.floor(n / 100) === writer);
    expect(own).toEqual(Array.from({ length: 20 }, (_, n) => writer * 100 + n));
  }
});

test('many entries of a job are one row, and a reader may begin and end at any of them', async () => {
  const jobId = await ingestJob();
  const from = await headOfStream(ledger.db.api, stream);
  const at = (n: number) => new Date(1_700_000_000_123 + n);
  const written = Array.from({ length: 450 }, (_, n) => ({ jobId, at: at(n), body: { n } }));
  await appendLines(ledger.db.workers, written);
  const { rows } = await ledger.db.api.query('SELECT entries FROM millrace.stream_entries WHERE job_id = $1 ORDER BY stream_offset', [
    jobId,
  ]);
  expect(rows.map(({ entries }) => entries)).toEqual([200, 200, 50]);
  for (const [skip, limit] of [
    [0, 450],
    [0, 1],
    [199, 2],
    [250, 1_000],
    [449, 10],
    [450, 10],
  ] as const) {
    for (const ofJob of [{}, { jobId }]) {
      const read = await readStream(ledger.db.api, { stream, ...ofJob, from: from + skip, limit });
      const expected = written.slice(skip, skip + limit).map(({ body }, n) => ({ offset: from + skip + n, at: at(skip + n), jobId, body }));
      expect(read).toEqual(expected);
    }
  }
});

test('entries that are packed in a transaction get their offsets together, in their order', async () => {
  const from = await headOfStream(ledger.db.api, stream);
  const [one, other] = [await entry(21), await entry(22)];
  await appendEntries(ledger.db.api, [one, one, { ...one, stream: 'jobs.tasks' }, one, other, other]);
  expect((await readFrom(from)).map(([offset, n]) => [offset - from, n])).toEqual([
    [0, 21],
    [1, 21],
    [2, 21],
    [3, 22],
    [4, 22],
  ]);
  expect(await headOfStream(ledger.db.api, stream)).toBe(from + 5);
});

test('dead letters are never packed', async () => {
  const letter = { ...(await entry(23)), stream: 'jobs.dlq' } as const;
  await appendEntries(ledger.db.api, [letter, letter]);
  const { rows } = await ledger.db.api.query(`SELECT body FROM millrace.stream_entries WHERE stream = 'jobs.dlq' AND job_id = $1`, [
    letter.jobId,
  ]);
  expect(rows.map(({ body }) => body)).toEqual([{ n: 23 }, { n: 23 }]);
});

test('the lines of a job keep their order when those of several jobs are written together', async () => {
  const [one, other] = [await ingestJob(), await ingestJob()];
  const from = await headOfStream(ledger.db.api, stream);
  await appendLines(ledger.db.workers, [
    ...lines(one, 1),
    ...lines(other, 2),
    ...lines(one, 3),
    ...lines(randomUUID(), 4),
    ...lines(other, 5),
  ]);
  expect(await readFrom(from)).toEqual([1, 3, 2, 5].map((n, index) => [from + index, n]));
});

test('a process of an earlier version cannot give several entries one offset', async () => {
  const one = await entry(24);
  await appendEntries(ledger.db.api, [one, one]);
  const numbered = ledger.db.api.query('UPDATE millrace.stream_entries SET stream_offset = 1000000 WHERE job_id = $1', [one.jobId]);
  await expect(numbered).rejects.toThrow('packs_have_all_offsets');
  await numberEntries(ledger.db.api, stream);
});
