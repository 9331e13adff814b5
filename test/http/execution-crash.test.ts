import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { WorkerProcess } from '../engine/worker-process.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { claimOne, LONG } from './execution-work.ts';

const server = useExecution();
const LEASE_MS = PROFILES.forgerun.leaseMs;
const SCRIPT = fileURLToPath(new URL('./fixtures/execution-process.ts', import.meta.url));

/** At a server whose jobs may run as long as they do in a worker of another process, where time is not scaled. */
async function patient(): Promise<TestClient> {
  const { timeoutMs } = PROFILES.forgerun;
  const url = await server.listen({ settings: { profile: { ...server.settings.profile, timeoutMs } } });
  return (await server.client()).at(url);
}

/** Ends every lease that nobody renews from here on, for the rest of the test. */
async function endLeases(): Promise<void> {
  await server.ledger.moveClock(LEASE_MS + 1);
  onTestFinished(() => server.ledger.moveClock(-LEASE_MS - 1));
}

beforeEach(() => server.worker('none'));

describe('without any worker', () => {
  it('a job stays QUEUED and is never RUNNING, until one comes [FR-14.30] [FR-14.31]', async () => {
    const client = await server.client();
    const id = await client.submit();
    expect(await client.state(id)).toBe('QUEUED');
    await server.ledger.moveClock(86_400_000);
    expect(await client.state(id)).toBe('QUEUED');
    await server.ledger.moveClock(-86_400_000);
    await server.worker('start');
    await client.reached(id, 'SUCCEEDED');
  });
});

describe('a worker that dies with a job it has not started', () => {
  it('gives it back when its lease ends: the job is QUEUED again, and done by another [FR-14.32] [FR-14.33] [FR-12.05] [FR-12.06]', async () => {
    const client = await server.client();
    const id = await client.submit();
    await claimOne(server.ledger);
    expect(await client.state(id)).toBe('ASSIGNED');
    await server.ledger.moveClock(30_001);
    expect(await client.state(id)).toBe('QUEUED');
    await server.worker('start');
    await client.reached(id, 'SUCCEEDED');
    await server.ledger.moveClock(-30_001);
    expect(await client.path(id)).toEqual([
      '>CREATED:job.created',
      'CREATED>QUEUED:job.queued',
      'QUEUED>ASSIGNED:job.assigned',
      'ASSIGNED>RUNNING:job.running',
      'RUNNING>SUCCEEDED:job.succeeded',
    ]);
  });
});

describe('a worker process that is killed while it runs a job', () => {
  it('leaves it FAILED with an event that says why, and the client can retry it [FR-14.35] [FR-14.36] [FR-14.37]', async () => {
    const client = await patient();
    const child = await WorkerProcess.start({ url: server.ledger.db.url, org: '{}', script: SCRIPT });
    const id = await client.submit({ work_kind: LONG });
    await child.says(`began ${id} 1`);
    expect(await client.state(id)).toBe('RUNNING');
    await child.kill();
    await endLeases();
    await server.worker('start');
    expect(await client.reached(id, 'FAILED')).toMatchObject({ outcome: 'FAILED', attempt: 1 });
    const { events, failure } = await client.report(id);
    expect(events.at(-1)).toMatchObject({ prev_state: 'RUNNING', next_state: 'FAILED', reason: 'worker_lost' });
    expect(failure).toMatchObject({ code: 'WORKER_LOST', retryable: true });
    expect((await client.post(`/jobs/${id}/retry`)).body).toMatchObject({ state: 'QUEUED', attempt: 2 });
    await client.reached(id, 'SUCCEEDED');
  });

  it('may be frozen instead: its writes after the lease are refused [FR-14.51] [FR-13.02]', async () => {
    const client = await patient();
    const child = await WorkerProcess.start({ url: server.ledger.db.url, org: '{}', script: SCRIPT });
    const id = await client.submit({ work_kind: LONG });
    await child.says(`began ${id} 1`);
    child.signal('SIGSTOP');
    await endLeases();
    await server.worker('start');
    await client.reached(id, 'FAILED');
    const report = await client.report(id);
    child.signal('SIGCONT');
    await child.says(`ended ${id} lost`);
    expect(await client.report(id)).toEqual(report);
  });
});

describe('a worker that is stopped while it runs a job', () => {
  it('puts it back in the queue over FAILED, and the attempt is not counted [FR-09.37] [FR-13.03]', async () => {
    const client = await server.client();
    await server.worker('start');
    const release = server.longJobs.hold();
    const id = await client.submit({ work_kind: LONG });
    await client.reached(id, 'RUNNING');
    await server.worker('none');
    expect(await client.state(id)).toBe('QUEUED');
    release();
    await server.worker('start');
    await client.reached(id, 'SUCCEEDED');
    const path = await client.path(id);
    expect(path.slice(4, 6)).toEqual(['RUNNING>FAILED:job.failed', 'FAILED>QUEUED:job.retried']);
    expect(await server.ledger.rowOf({ orgId: client.clientId, id })).toMatchObject({ max_attempts: 5 });
  });
});
