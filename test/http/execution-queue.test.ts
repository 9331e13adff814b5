import { afterEach, describe, expect, it } from 'vitest';
import { generateDefinition } from '../../src/core/execution/definition.ts';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { intervalFor } from '../../src/engine/work/heartbeat.ts';
import type { Registration } from '../../src/engine/work/registry.ts';
import { executionRegistration } from '../../src/handlers/execution.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { folderWith, start } from '../cli/program.ts';
import { stopClock } from '../ledger/set-clock.ts';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';
import { useExecution } from './execution-fixture.ts';
import { claimOne } from './execution-work.ts';

const server = useExecution();
const { ledger } = server;
const engines: Engine[] = [];

afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.stop()));
});

async function idler(heartbeatMs?: number): Promise<Engine> {
  await server.worker('none');
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue, heartbeatMs });
  engines.push(engine);
  await engine.open();
  return engine;
}

type Made = { concurrency: number; handler?: () => Promise<unknown>; heartbeatMs?: number };

/** Another worker, of so many slots. Nobody else is at work. */
async function worker({ concurrency, handler, heartbeatMs }: Made): Promise<Engine> {
  const engine = await idler(heartbeatMs);
  const simulated = executionRegistration({ timeScale: 0.001, activeJobs: 1_000 });
  const registration = handler === undefined ? simulated : { ...simulated, handler };
  const registrations = [registration as unknown as Registration];
  engine.addCrew({ name: 'execution', slots: concurrency, queues: ['*'], registrations, startsApart: true });
  return engine;
}

describe('the queue', () => {
  it('is one for all clients, and gives jobs out in the order they were created [FR-12.01] [FR-12.02]', async () => {
    const engine = await worker({ concurrency: 1 });
    const clients = [await server.client(), await server.client(), await server.client()];
    const submitted: string[] = [];
    for (let n = 0; n < 12; n++) {
      const type = n % 2 === 0 ? 'EXECUTE' : 'EMIT_EVENT';
      submitted.push((await clients[n % 3]?.submit({ type })) as string);
    }
    const begun: string[] = [];
    engine.events.on('started', ({ jobId }) => begun.push(jobId));
    await engine.start();
    await until('every job has begun', () => begun.length, submitted.length);
    expect(begun).toEqual(submitted);
  });

  it('is polled by workers: a job without a notification is found [FR-12.03]', async () => {
    const engine = await worker({ concurrency: 1 });
    await engine.start();
    const client = await server.client();
    const definition = generateDefinition({
      ...{ type: 'EXECUTE', seedMs: 1, workKind: 'SUCCESS_FAST', failureProbability: 0, maxRuntimeMs: 120_000 },
    });
    const payload = { kind: 'json', text: JSON.stringify(definition) } as const;
    const { id } = await ledger.submitOne({
      ...{ orgId: client.clientId, type: EXECUTION_TYPE, policy: PROFILES.forgerun, job: { payload } },
    });
    await client.reached(id, 'SUCCEEDED');
  });
});

describe('a worker', () => {
  it('of one slot claims one job at a time, and runs one at a time [FR-12.04]', async () => {
    const client = await server.client();
    let running = 0;
    let most = 0;
    const handler = async () => {
      most = Math.max(most, ++running);
      await Promise.resolve();
      running--;
    };
    const engine = await worker({ concurrency: 1, handler });
    const ids = await Promise.all(Array.from({ length: 30 }, () => client.submit()));
    await engine.start();
    for (const id of ids) await client.reached(id, 'SUCCEEDED');
    expect(most).toBe(1);
    const text = `SELECT cardinality(seqs) AS jobs FROM millrace.records WHERE org_id = $1 AND to_state = 'running'`;
    const { rows } = await ledger.db.api.query(text, [client.clientId]);
    expect(rows.map(({ jobs }) => jobs)).toEqual(Array(30).fill(1));
  });

  it('runs as many jobs at once as configured, and no more [FR-12.09]', async () => {
    const client = await server.client();
    const gate = new Gate();
    const engine = await worker({ concurrency: 3, handler: () => gate.pass() });
    const ids = await Promise.all(Array.from({ length: 5 }, () => client.submit()));
    await engine.start();
    await gate.reached(3);
    const states = await Promise.all(ids.map((id) => client.state(id)));
    expect(states.filter((state) => state === 'RUNNING')).toHaveLength(3);
    expect(gate.arrived).toBe(3);
    gate.open();
    for (const id of ids) await client.reached(id, 'SUCCEEDED');
  });

  it('has one slot by default [FR-12.08] [FR-12.09]', async () => {
    const cwd = folderWith({ 'echo.js': `export const handlers = { echo: { handler: (_, payload) => payload } };` });
    const concurrencyOf = async (...options: string[]) => {
      const program = start(['work', 'echo.js', '--json', ...options], { database: ledger.db.url, cwd });
      const [line] = await program.said(/.+\n/);
      program.kill('SIGTERM');
      return JSON.parse(line as string).concurrency;
    };
    expect(await concurrencyOf()).toBe(1);
    expect(await concurrencyOf('--concurrency', '7')).toBe(7);
  });
});

describe('a lease', () => {
  it('makes the job ASSIGNED for thirty seconds, and QUEUED when they are over [FR-12.05] [FR-12.06] [FR-12.12]', async () => {
    await server.worker('none');
    const move = await stopClock(ledger);
    const client = await server.client();
    const id = await client.submit();
    await claimOne(ledger);
    expect(server.settings.profile.leaseMs).toBe(30_000);
    expect(await client.state(id)).toBe('ASSIGNED');
    await move(29_999);
    expect(await client.state(id)).toBe('ASSIGNED');
    await move(2);
    expect(await client.state(id)).toBe('QUEUED');
    await client.post(`/jobs/${id}/cancel`);
  });

  it('is kept up by heartbeats while the job runs, longer than it lasts itself [FR-12.07]', async () => {
    const profile = { ...PROFILES.forgerun, leaseMs: 60_000 };
    const client = (await server.client()).at(await server.listen({ settings: { profile } }));
    const gate = new Gate();
    const engine = await worker({ concurrency: 1, handler: () => gate.pass(), heartbeatMs: 100 });
    await engine.start();
    // Somebody is there who would take the job from a worker that falls silent.
    await (await idler()).start();
    const id = await client.submit();
    await gate.reached();
    const worked = '(SELECT worker_id FROM millrace.jobs WHERE id = $1)';
    const text = `SELECT extract(epoch FROM millrace.clock() - beat_at)::float8 AS seconds FROM millrace.workers WHERE id = ${worked}`;
    const silence = async (): Promise<number> => (await ledger.db.api.query(text, [id])).rows[0].seconds;
    // The job gets twice as old as its lease, and no pause between two heartbeats comes near that.
    for (let move = 0; move < 4; move++) {
      await ledger.moveClock(30_000);
      await until('the worker has sent another heartbeat', silence, (seconds) => seconds < 30);
    }
    expect(await client.state(id)).toBe('RUNNING');
    gate.open();
    expect(await client.reached(id, 'SUCCEEDED')).toMatchObject({ attempt: 1 });
    await ledger.moveClock(-120_000);
  });

  it('of thirty seconds is renewed every five, or more often where the configuration says so [FR-12.13]', () => {
    expect(server.settings.heartbeatMs).toBe(5_000);
    expect(intervalFor(30_000, server.settings.heartbeatMs)).toBe(5_000);
    expect(intervalFor(30_000, 2_000)).toBe(2_000);
    expect(intervalFor(6_000, 5_000)).toBe(1_000);
  });
});
