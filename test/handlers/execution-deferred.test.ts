import { describe, expect, it } from 'vitest';
import type { WorkKind } from '../../src/core/execution/kinds.ts';
import { readClock } from '../../src/ledger/driver/clock.ts';
import type { Caller } from '../../src/services/execution/context.ts';
import { QUICK, type Simulation, useSimulation } from './execution-fixture.ts';

const onTime = useSimulation(QUICK);
/** Each of these has a clock of its own, which the test moves. */
const restarted = useSimulation(QUICK);
const patient = useSimulation(QUICK);

const DAY_MS = 86_400_000;
const TWO_SECONDS = {
  ...{ type: 'DEFERRED', duration_ms: 2_000, should_fail: false, payload_size: 4_096 },
  expected_outcome: 'SUCCEEDED',
};

describe('SCHEDULED_ON_TIME', () => {
  it('of 2 000 ms and 4 KB waits as CREATED for its time, then succeeds, never early [FR-06.43] [FR-06.56]', async () => {
    const client = await onTime.newClient();
    const { jobId, executionAt } = await defer(onTime, client, { workKind: 'SCHEDULED_ON_TIME', inMs: 6_000 });
    expect(await onTime.read(client, jobId)).toMatchObject({ state: 'CREATED', executionAt });
    const job = await onTime.ended(client, jobId);
    expect(job).toMatchObject({ state: 'SUCCEEDED', attempt: 1, definition: TWO_SECONDS });
    await expectNotEarly(onTime, client, { jobId, executionAt });
  });
});

describe('SCHEDULED_LATE_RECOVERY', () => {
  it('of 2 000 ms and 4 KB is due while nothing runs, and is enqueued once after the restart [FR-06.44]', async () => {
    const client = await restarted.newClient();
    const { jobId, executionAt } = await defer(restarted, client, {
      workKind: 'SCHEDULED_LATE_RECOVERY',
      inMs: 60_000,
    });
    await restarted.close();
    await restarted.ledger.moveClock(300_000);
    await restarted.open();
    expect(await restarted.read(client, jobId)).toMatchObject({ state: 'CREATED' });
    await restarted.work();
    const job = await restarted.ended(client, jobId);
    expect(job).toMatchObject({ state: 'SUCCEEDED', attempt: 1, definition: TWO_SECONDS });
    await expectNotEarly(restarted, client, { jobId, executionAt });
  });
});

describe('SCHEDULED_FAR_FUTURE', () => {
  it('of 2 000 ms and 4 KB outlives more than a year of waiting and succeeds [FR-06.45] [FR-06.56]', async () => {
    const client = await patient.newClient();
    const { jobId, executionAt } = await defer(patient, client, {
      workKind: 'SCHEDULED_FAR_FUTURE',
      inMs: 400 * DAY_MS,
    });
    for (const days of [1, 198, 200]) {
      await restartAfter(patient, days * DAY_MS);
      const control = await patient.submit(client);
      await patient.ended(client, control);
      expect(await patient.read(client, jobId)).toMatchObject({ state: 'CREATED', attempt: expect.any(Number) });
    }
    await restartAfter(patient, 2 * DAY_MS);
    const job = await patient.ended(client, jobId);
    expect(job).toMatchObject({ state: 'SUCCEEDED', attempt: 1, definition: TWO_SECONDS });
    await expectNotEarly(patient, client, { jobId, executionAt });
  });
});

async function defer(simulation: Simulation, client: Caller, { workKind, inMs }: { workKind: WorkKind; inMs: number }) {
  const now = await readClock(simulation.ledger.db.api);
  const executionAt = new Date(now.getTime() + inMs);
  const jobId = await simulation.submit(client, { type: 'DEFERRED', workKind, executionAt });
  return { jobId, executionAt };
}

async function restartAfter(simulation: Simulation, ms: number): Promise<void> {
  await simulation.close();
  await simulation.ledger.moveClock(ms);
  await simulation.open();
  await simulation.work();
}

/** It entered the queue once and started once, both not before its time. */
async function expectNotEarly(
  simulation: Simulation,
  client: Caller,
  { jobId, executionAt }: { jobId: string; executionAt: Date },
): Promise<void> {
  const { events } = await simulation.report(client, jobId);
  expect(events.map(({ eventName }) => eventName)).toEqual([
    ...['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded'],
  ]);
  for (const { timestamp } of events.slice(1)) {
    expect(Date.parse(timestamp)).toBeGreaterThanOrEqual(executionAt.getTime());
  }
}
