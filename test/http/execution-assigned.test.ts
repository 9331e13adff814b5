/** Jobs between the claim and the start of a worker that is really there. */
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { HeldStarts } from '../engine/held-starts.ts';
import { WorkerProcess } from '../engine/worker-process.ts';
import { projectAll } from '../ledger/project-all.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import type { Event } from './execution-work.ts';

const server = useExecution();
const { ledger } = server;
const LEASE_MS = PROFILES.forgerun.leaseMs;
const SCRIPT = fileURLToPath(new URL('./fixtures/execution-process.ts', import.meta.url));
const RUN = [
  '>CREATED:job.created',
  'CREATED>QUEUED:job.queued',
  'QUEUED>ASSIGNED:job.assigned',
  'ASSIGNED>RUNNING:job.running',
  'RUNNING>SUCCEEDED:job.succeeded',
];

beforeEach(() => server.worker('none'));

const rowOf = (client: TestClient, id: string) => ledger.rowOf({ orgId: client.clientId, id });
const violations = () => checkInvariants(ledger.db.maintenance);

async function pass(ms: number): Promise<void> {
  await ledger.moveClock(ms);
  onTestFinished(() => ledger.moveClock(-ms));
}

/** Another process with one slot, so that it takes the next job when it is done with this one. */
const otherProcess = () => WorkerProcess.start({ url: ledger.db.url, org: JSON.stringify({ timeScale: 0.001, slots: 1 }), script: SCRIPT });

/** A job that a worker has claimed and cannot start yet. */
async function assigned(client: TestClient): Promise<string> {
  const id = await client.submit();
  await client.reached(id, 'ASSIGNED');
  return id;
}

/** The milliseconds that the events tell between being ASSIGNED and what came of it. */
async function toldMs(client: TestClient, id: string): Promise<number> {
  const { events } = (await client.report(id)) as { events: Event[] };
  const at = events.findIndex(({ next_state }) => next_state === 'ASSIGNED');
  return Date.parse(events[at + 1]?.timestamp ?? '') - Date.parse(events[at]?.timestamp ?? '');
}

describe('a job that a worker has claimed', () => {
  it('is ASSIGNED until it starts, without an event or an attempt, and then tells of both [FR-12.05] [FR-09.13] [FR-09.15]', async () => {
    const client = await server.client();
    await server.worker('start');
    const starts = await HeldStarts.hold(ledger);
    const id = await assigned(client);
    const row = await rowOf(client, id);
    expect(row).toMatchObject({ state: 'scheduled', attempts_started: 0, event_count: 1 });
    expect(row.worker_id).not.toBeNull();
    expect(row.updated_at).toEqual(row.created_at);
    await starts.arrived();
    await pass(2_000);
    // The time of a start is that of its sending: this one is sent again.
    await starts.fail();
    await starts.release();
    await client.reached(id, 'SUCCEEDED');
    expect(await client.path(id)).toEqual(RUN);
    expect(await toldMs(client, id)).toBeGreaterThanOrEqual(2_000);
    expect(await violations()).toEqual([]);
  });

  it('adds the time under lease to job_assigned_seconds [FR-12.05]', async () => {
    const client = await server.client();
    const sum = async () => {
      await projectAll(ledger);
      const text = await server.telemetry.metrics.text();
      return Number(/^job_assigned_seconds_sum (.+)$/m.exec(text)?.[1] ?? 0);
    };
    await server.worker('start');
    const starts = await HeldStarts.hold(ledger);
    const before = await sum();
    const id = await assigned(client);
    await starts.arrived();
    await pass(3_000);
    await starts.fail();
    await starts.release();
    await client.reached(id, 'SUCCEEDED');
    expect((await sum()) - before).toBeGreaterThanOrEqual(3);
  });

  it('is CANCELED at once when its client says so, and its handler never runs [FR-09.16]', async () => {
    const client = await server.client();
    await server.worker('start');
    const starts = await HeldStarts.hold(ledger);
    const begun: string[] = [];
    onTestFinished(server.engine.events.on('started', ({ jobId }) => begun.push(jobId)));
    const id = await assigned(client);
    await pass(1_000);
    expect((await client.post(`/jobs/${id}/cancel`)).body.state).toBe('CANCELED');
    await starts.release();
    const next = await client.submit();
    await client.reached(next, 'SUCCEEDED');
    expect((await client.path(id)).slice(2)).toEqual(['QUEUED>ASSIGNED:job.assigned', 'ASSIGNED>CANCELED:job.canceled']);
    expect(await toldMs(client, id)).toBeGreaterThanOrEqual(1_000);
    expect(await rowOf(client, id)).toMatchObject({ attempts_started: 0, worker_id: null });
    expect(begun).toEqual([next]);
  });

  it('goes back to the queue when the worker is stopped, as if it had never been claimed [FR-09.32] [FR-12.06]', async () => {
    const client = await server.client();
    await server.worker('start');
    const starts = await HeldStarts.hold(ledger);
    const id = await assigned(client);
    await starts.arrived();
    const stopping = server.worker('none');
    await starts.fail();
    await stopping;
    expect(await client.state(id)).toBe('QUEUED');
    expect(await rowOf(client, id)).toMatchObject({ attempts_started: 0, event_count: 1, worker_id: null });
    await starts.release();
    await server.worker('start');
    await client.reached(id, 'SUCCEEDED');
    expect(await client.path(id)).toEqual(RUN);
    expect(await violations()).toEqual([]);
  });
});

describe('a worker process that dies between claim and start', () => {
  it('leaves the job ASSIGNED until its lease ends; then it is QUEUED and done by another, at its first attempt [FR-12.06] [FR-14.32] [FR-14.33]', async () => {
    const client = await server.client();
    const child = await otherProcess();
    const starts = await HeldStarts.hold(ledger);
    const id = await assigned(client);
    await starts.arrived();
    await child.kill();
    await starts.fail();
    await starts.release();
    expect(await client.state(id)).toBe('ASSIGNED');
    await pass(LEASE_MS + 1);
    expect(await client.state(id)).toBe('QUEUED');
    await server.worker('start');
    expect(await client.reached(id, 'SUCCEEDED')).toMatchObject({ attempt: 1 });
    expect(await client.path(id)).toEqual(RUN);
    expect(await rowOf(client, id)).toMatchObject({ attempts_started: 1, max_attempts: 4 });
    expect(child.said).not.toContainEqual(expect.stringContaining(id));
    expect(await violations()).toEqual([]);
  });

  it('may be frozen instead: its start comes after another has done the job, and is refused [FR-14.32] [FR-14.51]', async () => {
    const client = await server.client();
    const child = await otherProcess();
    const starts = await HeldStarts.hold(ledger);
    const id = await assigned(client);
    await starts.arrived();
    child.signal('SIGSTOP');
    await starts.fail();
    await starts.release();
    await ledger.moveClock(LEASE_MS + 1);
    await server.worker('start');
    await client.reached(id, 'SUCCEEDED');
    await server.worker('none');
    await ledger.moveClock(-LEASE_MS - 1);
    child.signal('SIGCONT');
    const next = await client.submit();
    await child.says(`began ${next}`);
    expect(child.said).not.toContainEqual(expect.stringContaining(id));
    expect(await client.path(id)).toEqual(RUN);
  });
});
