import { afterAll, beforeAll, expect, test } from 'vitest';
import { recogniseRestore } from '../../src/ledger/driver/cluster.ts';
import { appendEntries, headOfStream, numberEntries, readStream } from '../../src/ledger/ingest/streams.ts';
import { type TestLedger, useLedger } from './fixture.ts';
import { type Restored, restoreInto } from './restored-ledger.ts';

const source = useLedger();
const STREAM = 'jobs.logs';
const JOB = '00000000-0000-7000-8000-000000000001';
let restored: Restored;
let orgId: string;
let before: [offset: number, n: unknown][];

const append = (ledger: TestLedger, n: number) => appendEntries(ledger.db.api, [{ stream: STREAM, orgId, jobId: JOB, body: { n } }]);

async function readFrom(ledger: TestLedger, from: number): Promise<[offset: number, n: unknown][]> {
  await numberEntries(ledger.db.maintenance, STREAM);
  const entries = await readStream(ledger.db.api, { stream: STREAM, jobId: JOB, from, limit: 100 });
  return entries.map(({ offset, body }) => [offset, body.n]);
}

beforeAll(async () => {
  // Numbers of transactions far above those of a fresh cluster.
  const client = await source.db.maintenance.connect();
  for (let burnt = 0; burnt < 3_000; burnt++) await client.query('SELECT pg_current_xact_id()');
  client.release();
  orgId = await source.newOrg();
  for (const n of [1, 2, 3]) await append(source, n);
  before = await readFrom(source, 0);
  // Committed, and without an offset when the dump is made.
  await append(source, 4);
  restored = await restoreInto(source);
}, 120_000);
afterAll(() => restored?.close());

test('the streams of a restored ledger keep their offsets, and continue after them without a gap [C86]', async () => {
  const { ledger } = restored;
  await recogniseRestore(ledger.db.maintenance);
  const [first] = before[0] as [number, unknown];
  expect(before).toEqual([1, 2, 3].map((n) => [first + n - 1, n]));
  await append(ledger, 5);
  expect(await readFrom(ledger, 0)).toEqual([1, 2, 3, 4, 5].map((n) => [first + n - 1, n]));
  // A reader that kept its place before the restore sees what came after it, once.
  expect(await readFrom(ledger, first + 3)).toEqual([
    [first + 3, 4],
    [first + 4, 5],
  ]);
  expect(await headOfStream(ledger.db.api, STREAM)).toBe(first + 5);
});
