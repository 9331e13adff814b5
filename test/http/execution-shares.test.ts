/** Two clients of the execution API on a real socket. One of them floods the server. */
import { expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Registration } from '../../src/engine/work/registry.ts';
import { executionRegistration } from '../../src/handlers/execution.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

// Jobs that hold a slot must not meet their time limit.
const server = useExecution({ profile: PROFILES.forgerun });

/** The only worker, with the reserve that the program has by default. */
async function worker(slots: number, handler: () => unknown): Promise<Engine> {
  await server.worker('none');
  const engine = createEngine({ database: server.ledger.db, profile: PROFILES.gopherqueue, reservePercent: 10 });
  await engine.open();
  const registration = { ...executionRegistration({ timeScale: 1, activeJobs: 1_000 }), handler } as unknown as Registration;
  engine.addCrew({ name: 'execution', slots, queues: ['*'], registrations: [registration], startsApart: true });
  onTestFinished(() => engine.stop());
  return engine;
}

const flood = (client: TestClient, jobs: number): Promise<string[]> => Promise.all(Array.from({ length: jobs }, () => client.submit()));

it('long jobs of one client leave a slot to the job of another, which runs before any of them has ended', async () => {
  const [hostile, honest] = [await server.client(), await server.client()];
  const gate = new Gate();
  const engine = await worker(10, () => gate.pass());
  const ids = await flood(hostile, 20);
  await engine.start();
  await gate.reached(9);
  const id = await honest.submit();
  await honest.reached(id, 'RUNNING');
  const states = await Promise.all(ids.map((each) => hostile.state(each)));
  expect(states.toSorted()).toEqual([...Array(11).fill('QUEUED'), ...Array(9).fill('RUNNING')]);
  gate.open();
  for (const each of [...ids, id]) await (ids.includes(each) ? hostile : honest).reached(each, 'SUCCEEDED');
});

it('a job of another client overtakes a flood of short ones', async () => {
  const [hostile, honest] = [await server.client(), await server.client()];
  const engine = await worker(1, () => undefined);
  await flood(hostile, 60);
  const id = await honest.submit();
  const begun: string[] = [];
  engine.events.on('started', ({ jobId }) => void begun.push(jobId));
  await engine.start();
  await until('the job has begun', () => begun.includes(id));
  expect(begun.indexOf(id)).toBeLessThan(5);
});
