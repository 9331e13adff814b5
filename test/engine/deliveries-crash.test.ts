import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { openEgress } from '../../src/platform/deliveries.ts';
import { openReceiver } from '../../src/simulator/webhook-receiver.ts';
import { register } from '../http/delivering-server.ts';
import { useExecution } from '../http/execution-fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const SCRIPT = fileURLToPath(new URL('./fixtures/deliveries.ts', import.meta.url));
const LEASE_MS = 30_000;
const JOBS = 20;
const KILLS = 2;

const server = useExecution();
const { config } = loadConfig({ environment: { MILLRACE_EGRESS_ALLOW: '127.0.0.0/8' }, folder: tmpdir() });
server.webhooks = { guard: openEgress(config), addresses: config.egress.policy, secretOverlapMs: 0, onQueued() {} };

describe('a process that is killed while it delivers', () => {
  it('loses no event, and each arrives under one id, in order, never without an attempt on its list', async () => {
    await server.worker('none');
    const receiver = await openReceiver();
    onTestFinished(() => receiver.close());
    const client = await server.client();
    await register(client, receiver.url('slow?ms=5'), '*');
    const params = { url: server.ledger.db.url, org: '', script: SCRIPT };
    let child = await WorkerProcess.start(params);
    const jobIds = await Promise.all(Array.from({ length: JOBS }, () => client.submit()));
    for (let kill = 1; kill <= KILLS; kill++) {
      await receiver.until((received) => received.length >= kill * 10);
      await child.kill();
      // The lease of whatever it held is over.
      await server.ledger.moveClock(LEASE_MS + 1_000);
      child = await WorkerProcess.start(params);
    }
    // A kill may also end a job's attempt, which then has other events than the rest: the reports say which there are.
    for (const id of jobIds) await until(`the report of job ${id} has events`, async () => (await client.report(id)).events !== undefined);
    const reported = await Promise.all(jobIds.map((id) => client.report(id)));
    const idOf = (body: string): string => JSON.parse(body).data.event_id;
    const expected = reported.flatMap(({ events }) => events.map(({ event_id }: { event_id: string }) => event_id));
    await receiver.until((received) => {
      const arrived = new Set(received.map(({ body }) => idOf(body)));
      return expected.every((id) => arrived.has(id));
    });
    const messages = new Map<string, Set<string | null>>();
    for (const { body, messageId } of receiver.received()) {
      const ids = messages.get(idOf(body)) ?? new Set();
      messages.set(idOf(body), ids.add(messageId));
    }
    expect([...messages.values()].every((ids) => ids.size === 1)).toBe(true);
    for (const { events } of reported) {
      const ids = events.map(({ event_id }: { event_id: string }) => event_id);
      const arrived = [...messages.keys()].filter((id) => ids.includes(id));
      expect(arrived).toEqual(ids);
    }
    const rows = () =>
      server.ledger.db.maintenance.query<{ state: string; message_id: string; attempts: number }>(
        `SELECT state, 'msg_' || replace(id::text, '-', '') AS message_id, attempts FROM millrace.webhook_deliveries`,
      );
    await until(
      'every delivery has arrived',
      async () => (await rows()).rows,
      (seen) => seen.every(({ state }) => state === 'delivered'),
    );
    const attempts = new Map((await rows()).rows.map((row) => [row.message_id, row.attempts]));
    const arrivals = Map.groupBy(receiver.received(), ({ messageId }) => messageId);
    expect([...arrivals].filter(([id, all]) => all.length > (attempts.get(id ?? '') ?? 0))).toEqual([]);
    expect(await checkInvariants(server.ledger.db.maintenance)).toEqual([]);
  });
});
