import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import type { Health } from '../../src/core/breaker.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { changeOrigin } from '../../src/ledger/webhooks/callback-origins.ts';
import { setLanesLive } from '../../src/ledger/webhooks/promote-deliveries.ts';
import { makeLanesDue, targetsOf } from '../../src/ledger/webhooks/queue-deliveries.ts';
import { type LaneBounds, lockReadyLanes } from '../../src/ledger/webhooks/ready-lanes.ts';
import { useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);
const BOUNDS: LaneBounds = { org: 100, origin: 100, unverified: 100, unknown: 100, failing: 100, threshold: 5 };
const HOUR = 3_600_000;
const HEALTHY: Health = { failures: 0, failingSinceMs: null, nextAtMs: null };

/** Each test has lanes of its own. */
afterEach(async () => {
  await webhooks.sql('TRUNCATE millrace.webhooks, millrace.callback_origins CASCADE');
});

/** Callbacks, each with one delivery queued; due unless their origin is left alone. */
async function callbacks(orgId: string, urls: readonly string[]): Promise<string[]> {
  const idOf = await targetsOf(
    ledger.db.api,
    urls.map((url) => ({ orgId, url })),
  );
  const ids = urls.map((url) => idOf({ orgId, url }));
  const queue = `INSERT INTO millrace.webhook_deliveries (id, org_id, webhook_id, position, event, body, state, created_at)
    SELECT gen_random_uuid(), $1, id, nextval('millrace.delivery_position'), 'job.created', '{}', 'queued', millrace.clock()
    FROM unnest($2::uuid[]) AS i(id)`;
  await webhooks.sql(queue, [orgId, ids]);
  await makeLanesDue(ledger.db.api, ids);
  return ids;
}

const urls = (host: string, count: number) => Array.from({ length: count }, (_, no) => `https://${host}/?job=${no}`);

const ready = async (bounds: Partial<LaneBounds> = {}, start: string = randomUUID()): Promise<string[]> =>
  inTransaction(ledger.db.workers, async (client) => {
    const lanes = await lockReadyLanes(client, { limit: 200, bounds: { ...BOUNDS, ...bounds }, start });
    return (lanes ?? []).map(({ webhookId }) => webhookId);
  });

const goLive = (ids: readonly string[]) =>
  setLanesLive(
    ledger.db.api,
    ids.map((webhookId) => ({ webhookId, live: { deliveryId: randomUUID(), jobId: randomUUID() } })),
  );

const set = (ids: readonly string[], change: string) =>
  webhooks.sql(`UPDATE millrace.webhook_lanes SET ${change} WHERE webhook_id = ANY ($1)`, [ids]);

const note = (orgId: string, url: string, health: Health) =>
  inTransaction(ledger.db.api, (client) => changeOrigin(client, { orgId, url }, () => health));

const failing = (failures: number, waitMs: number): Health => {
  const nowMs = Date.now();
  return { failures, failingSinceMs: nowMs, nextAtMs: waitMs === 0 ? null : nowMs + waitMs };
};

describe('calls under way are bounded', () => {
  test('for one origin of an org with any callback URLs, and another origin has its own room', async () => {
    const orgId = await ledger.newOrg();
    const hanging = await callbacks(orgId, urls('slow.example', 30));
    const [other] = await callbacks(orgId, ['https://slow.example:8443/']);
    const first = await ready({ origin: 4 });
    expect(first.filter((id) => hanging.includes(id))).toHaveLength(4);
    expect(first).toContain(other);
    await goLive(first);
    expect(await ready({ origin: 4 })).toEqual([]);
    const ended = first.filter((id) => hanging.includes(id)).slice(0, 1);
    await set(ended, 'live_delivery = NULL, live_job = NULL');
    expect(await ready({ origin: 4 })).toHaveLength(1);
  });

  test('for one org with any hosts, and another org has its own room', async () => {
    const [greedy, modest] = [await ledger.newOrg(), await ledger.newOrg()];
    const many = Array.from({ length: 30 }, (_, no) => `https://host-${no}.example/`);
    await callbacks(greedy, many);
    const [own] = await callbacks(modest, ['https://own.example/']);
    const first = await ready({ org: 6 });
    expect(first).toHaveLength(7);
    expect(first).toContain(own);
    await goLive(first.filter((id) => id !== own));
    expect(await ready({ org: 6 })).toEqual([own]);
  });

  test('for one org in all, whether it answered, failed, or nothing is known of it', async () => {
    const orgId = await ledger.newOrg();
    const ids = await callbacks(orgId, urls('mixed.example', 9));
    await set(ids.slice(0, 3), 'standing = 0');
    await set(ids.slice(3, 6), 'standing = 2');
    expect(await ready({ org: 4 })).toHaveLength(4);
    expect(await ready({ origin: 5 })).toHaveLength(5);
  });

  test('for failing and unknown targets; healthy targets need no share', async () => {
    const lanes: string[] = [];
    for (let count = 0; count < 9; count++) lanes.push(...(await callbacks(await ledger.newOrg(), ['https://a.example/'])));
    const [sound, bad] = [lanes.slice(0, 3), lanes.slice(3, 6)];
    await set(sound, 'standing = 0, delivered_total = 1');
    await set(bad, 'standing = 2, failures = 1, failing_since = millrace.clock()');
    const first = await ready({ unknown: 2, failing: 1 });
    expect(first.filter((id) => sound.includes(id))).toHaveLength(3);
    expect(first.filter((id) => bad.includes(id))).toHaveLength(1);
    expect(first).toHaveLength(6);
    await goLive(first);
    expect(await ready({ unknown: 2, failing: 1 })).toEqual([]);
    expect(await ready({ unknown: 2, failing: 2 })).toHaveLength(1);
  });

  test('and lanes that only wait for their next attempt take no room', async () => {
    const lanes: string[] = [];
    for (let count = 0; count < 3; count++) lanes.push(...(await callbacks(await ledger.newOrg(), ['https://a.example/'])));
    const [waiting, recovering] = [lanes.slice(0, 2), lanes.slice(2)];
    await set(lanes, 'standing = 2, failures = 3, failing_since = millrace.clock()');
    await set(waiting, `due_at = millrace.clock() + interval '1 hour', is_ready = false`);
    expect(await ready({ failing: 1 })).toEqual(recovering);
  });
});

describe('callbacks of one origin', () => {
  test('wait together while it is left alone, those that were ready before, too', async () => {
    const orgId = await ledger.newOrg();
    const [early = ''] = await callbacks(orgId, ['https://dead.example/?job=early']);
    await note(orgId, 'https://dead.example/', failing(5, HOUR));
    const late = await callbacks(orgId, urls('dead.example', 5));
    const [elsewhere] = await callbacks(orgId, ['https://alive.example/']);
    expect(await ready()).toEqual([elsewhere]);
    for (const id of [early, ...late]) {
      const { due_at } = await webhooks.lane(id);
      expect((due_at as Date).getTime()).toBeGreaterThan(Date.now() + HOUR / 2);
    }
  });

  test('are tried one at a time after that, until one is answered', async () => {
    const orgId = await ledger.newOrg();
    await note(orgId, 'https://dead.example/', failing(5, 0));
    await callbacks(orgId, urls('dead.example', 5));
    const probe = await ready();
    expect(probe).toHaveLength(1);
    await goLive(probe);
    expect(await ready()).toEqual([]);
    await set(probe, 'live_delivery = NULL, live_job = NULL');
    await note(orgId, 'https://dead.example/', HEALTHY);
    expect(await ready()).toHaveLength(4);
  });

  test('have its standing: a URL that was never called is trusted where others answered, and suspect where they failed', async () => {
    const orgId = await ledger.newOrg();
    await note(orgId, 'https://good.example/', HEALTHY);
    await note(orgId, 'https://bad.example/', failing(1, 0));
    const standingOf = async (url: string) => {
      const [id] = await callbacks(orgId, [url]);
      const text = 'SELECT standing FROM millrace.webhook_lanes WHERE webhook_id = $1';
      return (await webhooks.sql<{ standing: number }>(text, [id]))[0]?.standing;
    };
    expect(await standingOf('https://good.example/1')).toBe(0);
    expect(await standingOf('https://bad.example/1')).toBe(2);
    expect(await standingOf('https://new.example/1')).toBe(1);
  });
});

test('every org comes to its turn, wherever the promoter begins', async () => {
  const ids: string[] = [];
  for (let count = 0; count < 5; count++) ids.push(...(await callbacks(await ledger.newOrg(), urls('a.example', 2))));
  for (const start of ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', randomUUID()])
    expect((await ready({}, start)).sort()).toEqual([...ids].sort());
});
