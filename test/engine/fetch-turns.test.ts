/** Downloads of several orgs from one host, with the real engine, gate and handler. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { HealthPools } from '../../src/egress/health-pools.ts';
import { SharedHostGate } from '../../src/engine/downloads/shared-host-gate.ts';
import { EventHub } from '../../src/engine/events.ts';
import { fetchRegistration } from '../../src/handlers/fetch.ts';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { localEgress } from '../egress/local-egress.ts';
import { answerWith, openOrigin } from '../egress/origin.ts';
import { taskFor } from '../handlers/fetch-fixture.ts';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

/** The type of downloads is reserved for the ingest API. */
const TYPE = 'test.download';
const bench = useBench();
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

/** A worker that downloads. Returns the paths in the order in which the host saw them, and the most requests in flight. */
async function openWorker({ concurrency, slots, status }: { concurrency: number; slots: number; status?: (path: string) => number }) {
  const seen: string[] = [];
  const counts = { inFlight: 0, most: 0 };
  const origin = await openOrigin(({ path }, socket) => {
    seen.push(path);
    counts.most = Math.max(counts.most, ++counts.inFlight);
    setImmediate(() => {
      counts.inFlight--;
      socket.write(answerWith(status?.(path) ?? 200, { 'retry-after': '1' }, path));
    });
    return null;
  });
  const folder = await mkdtemp(join(tmpdir(), 'fetch-turns-'));
  const hosts = new SharedHostGate({ database: bench.ledger.db, events: new EventHub(), limits: { concurrency, rate: null } });
  const egress = localEgress();
  const store = new FolderStore(folder);
  const pools = new HealthPools({ pools: new Map() });
  const limits = { maxBytes: 1_000, timeoutMs: 60_000, idleTimeoutMs: 30_000, redirects: 5 };
  opened.push(
    () => rm(folder, { recursive: true, force: true }),
    () => origin.close(),
    () => egress.close(),
    () => hosts.stop(),
  );
  hosts.start();
  const millrace = await bench.open({ concurrency: slots });
  millrace.register({ ...fetchRegistration({ store, egress, pools, hosts, limits, log: () => {} }), type: TYPE });
  await millrace.start();
  opened.push(() => millrace.close());
  return { seen, counts, origin };
}

const submissions = (port: number, name: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ type: TYPE, payload: taskFor(`http://127.0.0.1:${port}/${name}-${n}`) }));

test('the single task of an org does not wait for the many tasks of another for the same host', async () => {
  const { seen, counts, origin } = await openWorker({ concurrency: 1, slots: 6 });
  const [many, one] = [await bench.open({ org: await bench.ledger.newOrg() }), await bench.open({ org: await bench.ledger.newOrg() })];
  await many.submitMany(submissions(origin.port, 'many', 400));
  await until('the first org has begun', () => seen.length > 10);
  const [submission] = submissions(origin.port, 'one', 1);
  const { jobId } = await one.submit(submission!);
  // Counted from here on: the submission itself may take long.
  const before = seen.length;
  await until('its task is done', async () => (await one.get(jobId))?.state === 'completed');
  expect(seen.indexOf('/one-0') - before).toBeLessThan(200);
  expect(counts.most).toBe(1);
});

test('a task that is sent away uses up none of its attempts, and all tasks end', async () => {
  const { seen, counts, origin } = await openWorker({ concurrency: 1, slots: 10 });
  const org = await bench.open({ org: await bench.ledger.newOrg() });
  const { results } = await org.submitMany(submissions(origin.port, 'task', 60).map((each) => ({ ...each, maxAttempts: 1 })));
  for (const { jobId } of results) await until(`${jobId} has ended`, async () => (await org.get(jobId as string))?.state === 'completed');
  expect(new Set(seen).size).toBe(60);
  expect(counts.most).toBe(1);
});

test('a host that asks for a pause is left alone, and the task succeeds later', async () => {
  const asked = new Set<string>();
  const first = (path: string): number => {
    if (asked.has(path)) return 200;
    asked.add(path);
    return 429;
  };
  const { seen, origin } = await openWorker({ concurrency: 2, slots: 4, status: first });
  const org = await bench.open({ org: await bench.ledger.newOrg() });
  const { jobId } = await org.submit(submissions(origin.port, 'throttled', 1)[0]!);
  await until('it is downloaded', async () => (await org.get(jobId))?.state === 'completed');
  expect(seen).toEqual(['/throttled-0', '/throttled-0']);
});
