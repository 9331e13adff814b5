import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { NIL_ORG_ID } from '../../src/core/governance/audit-action.ts';
import { DEAD_LETTER_QUEUE, STANDING_QUEUES } from '../../src/core/submission-fields.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { createOrg } from '../../src/services/access/create-org.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();

const operate = (method: string, path: string, body?: object) => server.operate(method, path, { body });
const queue = async (name: string) => (await server.get(`/queues/${encodeURIComponent(name)}`)).body;

async function orgWithKey() {
  const { id: orgId, slug } = await createOrg(server.database, { slug: `org-${randomBytes(4).toString('hex')}` });
  const { key } = await createKey(server.database, { orgId, scopes: ['jobs:write', 'jobs:read', 'queue:critical', 'operator'] });
  return { orgId, slug, key };
}

async function submit(key: string, job: object) {
  const response = await fetch(`${server.url}/queue/v1/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'nothing.serves.it', payload: {}, ...job }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
  return { status: response.status, body: (await response.json()) as any };
}

const auditOf = async (event: string) =>
  (await server.database.api.query(`SELECT org_id, actor, details FROM ${ACTIONS} WHERE event = $1 ORDER BY id DESC`, [event])).rows;

describe('the queues of a fresh ledger', () => {
  test('are the seven of the topology, each with the target of its SLO [AB-queue.01..08] [AB-accept.01] [C56] [C58] [N50]', async () => {
    const { status, body } = await server.get('/queues');
    expect(status).toBe(200);
    expect(body.items.map(({ name }: { name: string }) => name).sort()).toEqual([...STANDING_QUEUES, DEAD_LETTER_QUEUE].sort());
    const targets = Object.fromEntries(body.items.map((each: { name: string; slo_seconds: number }) => [each.name, each.slo_seconds]));
    expect(targets).toEqual({
      'q:critical': 5,
      'q:default': 60,
      'q:notifications': 30,
      'q:planning': 600,
      'q:exports': 600,
      'q:maintenance': 3600,
      'q:deadletter': null,
    });
    expect(await queue('q:critical')).toMatchObject({ depth_cap: 1000, reserved_share: null, order: 'fair' });
    expect(await queue('q:default')).toEqual({
      name: 'q:default',
      order: 'fair',
      paused: false,
      draining: false,
      waiting: expect.any(Number),
      running: expect.any(Number),
      oldest_waiting_seconds: null,
      concurrency: null,
      rate: null,
      depth_cap: null,
      slo_seconds: 60,
      slo_met: null,
      reserved_share: 0.1,
    });
  });

  test('are listed in pages', async () => {
    const first = (await server.get('/queues?limit=3')).body;
    expect(first.items).toHaveLength(3);
    const second = (await server.get(`/queues?limit=10&cursor=${first.next_cursor}`)).body;
    expect(second).toMatchObject({ items: { length: 4 }, next_cursor: null });
    expect((await server.get(`/types?cursor=${first.next_cursor}`)).status).toBe(400);
  });

  test('do not include q:deadletter for jobs and settings, which counts dead letters [AB-queue.08] [AB-queue.14] [C60]', async () => {
    const { key } = await orgWithKey();
    expect((await submit(key, { queue: DEAD_LETTER_QUEUE })).status).toBe(400);
    for (const verb of ['pause', 'resume', 'drain']) {
      expect((await operate('POST', `/queues/q%3Adeadletter/${verb}`)).status).toBe(409);
    }
    const refused = await operate('PATCH', '/queues/q%3Adeadletter', { concurrency: 1 });
    expect(refused).toMatchObject({ status: 409, body: { error: { message: expect.stringContaining('shows the dead letters') } } });
    expect(await queue(DEAD_LETTER_QUEUE)).toMatchObject({ waiting: 0, running: 0, paused: false });
  });
});

describe('a change of a queue', () => {
  test('names members and keeps the others, and null removes one', async () => {
    const changed = await operate('PATCH', '/queues/q%3Aplanning', {
      ...{ order: 'fifo', concurrency: 3, rate: 2.5, depth_cap: 10, slo_seconds: 90, reserved_share: 0.25 },
      reason: 'the provider is slow',
    });
    const settings = { order: 'fifo', concurrency: 3, rate: 2.5, depth_cap: 10, slo_seconds: 90, reserved_share: 0.25 };
    expect(changed).toMatchObject({ status: 200, body: { name: 'q:planning', ...settings } });
    await operate('PATCH', '/queues/q:planning', { rate: null });
    expect(await queue('q:planning')).toMatchObject({ ...settings, rate: null });
    const [newest, first] = await auditOf('queue.changed');
    expect(newest).toMatchObject({ org_id: NIL_ORG_ID, actor: 'user:operator', details: { queue: 'q:planning', rate: null } });
    expect(first.details).toMatchObject({ concurrency: 3, reason: 'the provider is slow' });
    const back = { order: 'fair', concurrency: null, rate: null, depth_cap: null, slo_seconds: 600, reserved_share: null };
    expect((await operate('PATCH', '/queues/q%3Aplanning', { order: null })).body).toMatchObject({ order: 'fair', concurrency: 3 });
    expect((await operate('PATCH', '/queues/q%3Aplanning', back)).body).toMatchObject(back);
  });

  test.each([
    [{}, 400],
    [{ concurrency: 0 }, 400],
    [{ concurrency: 1.5 }, 400],
    [{ concurrency: 'ten' }, 400],
    [{ rate: 0 }, 400],
    [{ rate: -1 }, 400],
    [{ depth_cap: 0 }, 400],
    [{ slo_seconds: 0 }, 400],
    [{ reserved_share: 1.1 }, 400],
    [{ order: 'random' }, 400],
    [{ concurency: 3 }, 400],
    [{ reason: 'x'.repeat(1_001), rate: 1 }, 400],
    [{ reserved_share: 0.95 }, 400],
  ])('%j is refused with %i', async (body, status) => {
    const before = await queue('q:planning');
    const answer = await operate('PATCH', '/queues/q%3Aplanning', body);
    expect(answer.status).toBe(status);
    expect(answer.body.error.message.length).toBeGreaterThan(10);
    expect(await queue('q:planning')).toEqual(before);
  });

  test.each(['q%3Adefalt', '__proto__', 'constructor', '..%2F..', '%00', 'x'.repeat(400)])(
    'of %s, which does not exist, is 404',
    async (name) => {
      for (const [method, path, body] of [
        ['GET', `/queues/${name}`],
        ['PATCH', `/queues/${name}`, { concurrency: 1 }],
        ['POST', `/queues/${name}/pause`],
        ['POST', `/queues/${name}/drain`],
        ['POST', `/types/${name}/pause`],
      ] as const) {
        const { status } = await operate(method, path, body);
        expect([400, 404], `${method} ${path}`).toContain(status);
      }
      expect((await server.get('/queues')).body.items).toHaveLength(7);
    },
  );

  test('needs the operator token; the key of an org reads, and counts its own jobs only', async () => {
    const [ada, bob] = [await orgWithKey(), await orgWithKey()];
    await operate('POST', '/queues/q%3Aplanning/pause');
    for (let n = 0; n < 3; n++) expect((await submit(ada.key, { queue: 'q:planning' })).status).toBe(202);
    expect((await submit(bob.key, { queue: 'q:planning' })).status).toBe(202);
    const waitingFor = async (path: string, token?: string) => (await server.get(path, token)).body.waiting;
    expect(await waitingFor('/queues/q%3Aplanning', ada.key)).toBe(3);
    expect(await waitingFor('/queues/q%3Aplanning', bob.key)).toBe(1);
    expect(await waitingFor('/queues/q%3Aplanning')).toBe(4);
    expect(await waitingFor(`/queues/q%3Aplanning?org=${bob.slug}`)).toBe(1);
    expect((await server.get(`/queues?org=${bob.slug}`, ada.key)).status).toBe(404);
    const mine = (await server.get('/queues', bob.key)).body.items.find(({ name }: { name: string }) => name === 'q:planning');
    expect(mine).toMatchObject({ waiting: 1, oldest_waiting_seconds: expect.any(Number) });
    for (const [method, path, body] of [
      ['PATCH', '/queues/q%3Aplanning', { concurrency: 1 }],
      ['POST', '/queues/q%3Aplanning/pause'],
      ['POST', '/queues/q%3Aplanning/resume'],
      ['POST', '/queues/q%3Aplanning/drain'],
      ['POST', '/types/simulate/pause'],
    ] as const) {
      expect((await server.operate(method, path, { token: ada.key, body })).status, path).toBe(403);
      expect((await server.operate(method, path, { token: null, body })).status, path).toBe(401);
    }
    for (const path of ['/types', '/workers']) expect((await server.get(path, ada.key)).status).toBe(200);
    const [worker] = (await server.get('/workers')).body.items;
    const [seen] = (await server.get('/workers', ada.key)).body.items;
    expect(seen.host).not.toBe(worker.host);
    expect(worker).toMatchObject({ worker_id: expect.any(Number), pid: process.pid, slots: expect.any(Number), queues: expect.any(Array) });
    await operate('POST', '/queues/q%3Aplanning/resume');
  });
});

describe('a drain', () => {
  test('refuses new jobs with 429 and runs what waits; a pause starts nothing; resume ends both [N24]', async () => {
    const { key } = await orgWithKey();
    const job = { type: 'simulate', payload: { duration_ms: 1 }, queue: 'q:maintenance' };
    await operate('POST', '/queues/q%3Amaintenance/pause', { reason: 'test' });
    const first = await submit(key, { ...job, idempotency_key: 'drained' });
    expect(first.status).toBe(202);
    const drained = await operate('POST', '/queues/q%3Amaintenance/drain');
    expect(drained).toMatchObject({ status: 200, body: { paused: true, draining: true } });
    const refused = await submit(key, job);
    expect(refused).toMatchObject({ status: 429, body: { code: 'QUOTA_EXCEEDED' } });
    expect(refused.body.message).toContain('Queue q:maintenance is draining');
    expect(await submit(key, { ...job, idempotency_key: 'drained' })).toMatchObject({ status: 200, body: { job_id: first.body.job_id } });
    // As the org sees it: the platform's own maintenance waits and runs there, too.
    expect((await server.get('/queues/q%3Amaintenance', key)).body).toMatchObject({ waiting: 1, running: 0 });
    await operate('POST', '/queues/q%3Amaintenance/resume');
    await operate('POST', '/queues/q%3Amaintenance/drain');
    await until('the waiting job has run', async () => (await server.get('/queues/q%3Amaintenance', key)).body.waiting === 0);
    expect((await submit(key, job)).status).toBe(429);
    const resumed = await operate('POST', '/queues/q%3Amaintenance/resume');
    expect(resumed.body).toMatchObject({ paused: false, draining: false });
    expect((await submit(key, job)).status).toBe(202);
    for (const event of ['queue.paused', 'queue.draining', 'queue.resumed']) expect((await auditOf(event)).length).toBeGreaterThan(0);
    await until('the queue meets its target', async () => (await queue('q:maintenance')).slo_met === true);
  });
});

describe('a depth cap', () => {
  test('refuses the jobs that do not fit with 429, one by one and in a batch [C58] [AB-queue.16] [AB-queue.17]', async () => {
    const { key } = await orgWithKey();
    await operate('PATCH', '/queues/q%3Acritical', { depth_cap: 5 });
    const job = { queue: 'q:critical' };
    const answers = await Promise.all(Array.from({ length: 9 }, () => submit(key, job)));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(5);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(4);
    // A job whose write has just ended may be counted twice for a moment.
    expect(refused[0]?.body.message).toMatch(/^Queue q:critical is full: [5-9] jobs are waiting there, and its depth_cap is 5\. Try again/);
    expect((await submit(key, { queue: 'q:default' })).status).toBe(202);
    await operate('PATCH', '/queues/q%3Acritical', { depth_cap: 7 });
    const batch = await fetch(`${server.url}/queue/v1/jobs/batch`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ atomic: false, jobs: Array.from({ length: 4 }, () => ({ type: 'nothing.serves.it', payload: {}, ...job })) }),
    });
    const { accepted, rejected } = (await batch.json()) as { accepted: number; rejected: number };
    expect({ accepted, rejected }).toEqual({ accepted: 2, rejected: 2 });
    expect(await queue('q:critical')).toMatchObject({ waiting: 7 });
    await operate('PATCH', '/queues/q%3Acritical', { depth_cap: null });
    expect((await submit(key, job)).status).toBe(202);
    await operate('PATCH', '/queues/q%3Acritical', { depth_cap: 1000 });
  });
});

describe('job types', () => {
  test('are listed with who runs them, and are paused and resumed', async () => {
    const { key } = await orgWithKey();
    const typeOf = async (name: string) => (await server.get('/types')).body.items.find(({ type }: { type: string }) => type === name);
    expect(await typeOf('simulate')).toMatchObject({ paused: false, concurrency: null, served: true, worker_ids: [expect.any(Number)] });
    expect(await operate('POST', '/types/simulate/pause', { reason: 'it fails' })).toMatchObject({ status: 200, body: { paused: true } });
    const { body } = await submit(key, { type: 'simulate', payload: { duration_ms: 1 }, queue: 'q:exports' });
    expect(await typeOf('simulate')).toMatchObject({ paused: true });
    expect(await queue('q:exports')).toMatchObject({ waiting: 1 });
    await operate('POST', '/types/simulate/resume');
    const stateOf = async () =>
      (
        await fetch(`${server.url}/queue/v1/jobs/${body.job_id}`, { headers: { authorization: `Bearer ${key}` } }).then(
          (response) => response.json() as Promise<{ state: string }>,
        )
      ).state;
    await until('the job has run', async () => (await stateOf()) === 'COMPLETED');
    expect((await auditOf('type.paused'))[0]).toMatchObject({ actor: 'user:operator', details: { reason: 'it fails' } });
    expect(await auditOf('type.resumed')).toHaveLength(1);
  });
});
