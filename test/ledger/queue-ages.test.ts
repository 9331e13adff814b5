import { expect, test } from 'vitest';
import { readQueueAges } from '../../src/ledger/queues/queue-ages.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();

/** Says that the job waits for a worker since so many seconds. */
const waitsFor = (job: TestJob, seconds: number) =>
  ledger.db.api.query(`UPDATE millrace.jobs SET scheduled_at = millrace.clock() - $3 * interval '1 s' WHERE org_id = $1 AND seq = $2`, [
    job.orgId,
    job.seq,
    seconds,
  ]);

const ageOf = async (queue: string) => (await readQueueAges(ledger.db.api)).find((each) => each.queue === queue);

test('the age of a queue is that of the job that waits longest, also if another one was submitted before it', async () => {
  expect(await ageOf('q:default')).toEqual({ queue: 'q:default', depth: 0, ageSeconds: 0 });
  // As a job that was delayed, or that failed and is tried again, comes before those that became ready earlier.
  const [delayed, waiting, other] = [
    await ledger.submitOne(),
    await ledger.submitOne({ type: 'b' }),
    await ledger.submitOne({ type: 'b' }),
  ];
  await waitsFor(delayed, 20);
  await waitsFor(waiting, 30);
  await waitsFor(other, 45);
  const { depth, ageSeconds } = (await ageOf('q:default')) ?? { depth: 0, ageSeconds: 0 };
  expect(depth).toBe(3);
  expect(Math.round(ageSeconds)).toBeGreaterThanOrEqual(45);
});
