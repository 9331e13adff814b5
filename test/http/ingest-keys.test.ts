import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { createKey } from '../../src/services/access/create-key.ts';
import { manifest, useIngest } from './ingest-fixture.ts';

const server = useIngest({
  concurrency: 0,
  toml: `
[ingest]
idempotency_window = "1h"
[ingest.tenants.hasty]
idempotency_window = "10m"
[job_types.short]
idempotency_window = "2h"
`,
});

const keyed = (key: string, over: Parameters<typeof server.submit>[0] = {}) =>
  server.submit({ body: manifest(), ...over, headers: { 'x-fetchbox-idempotency-key': key, ...over.headers } });

const logOf = async (jobId: string): Promise<{ event: string; level: string; details: Record<string, unknown> }[]> =>
  (await server.get(`/jobs/${jobId}/logs`)).body;

test('a repeat with the same key returns the first job, also if it is written differently [FB-1.10] [FB-1.39]', async () => {
  const first = await keyed('repeat');
  const second = await keyed('repeat', { body: JSON.stringify(manifest(), null, 4) });
  expect([first.status, second.status]).toEqual([202, 202]);
  expect(second.body).toEqual(first.body);
  const { rows } = await server.database.api.query('SELECT count(*)::int4 AS n FROM millrace.ingest_resources WHERE job_id = $1', [
    first.body.job_id,
  ]);
  expect(rows[0].n).toBe(1);
  expect((await logOf(first.body.job_id)).map(({ event }) => event)).toEqual(['job.accepted']);
});

test('a key with another manifest returns the first job, and the log of that job warns [C12]', async () => {
  const first = await keyed('other');
  const second = await keyed('other', {
    body: manifest({
      resources: [
        { id: 'x', url: 'https://e.com/x' },
        { id: 'y', url: 'https://e.com/y' },
      ],
    }),
  });
  expect(second.status).toBe(202);
  expect(second.body).toEqual(first.body);
  expect((await logOf(first.body.job_id)).map(({ event, level }) => [event, level])).toEqual([
    ['job.accepted', 'info'],
    ['idempotency.conflict', 'warn'],
  ]);
});

test('a key belongs to one org and one job type', async () => {
  const mine = await keyed('shared', { headers: { 'x-fetchbox-tenant': 'mine' } });
  const yours = await keyed('shared', { headers: { 'x-fetchbox-tenant': 'yours' } });
  const short = await keyed('shared', { jobType: 'short', headers: { 'x-fetchbox-tenant': 'mine' } });
  expect(new Set([mine, yours, short].map(({ body }) => body.job_id)).size).toBe(3);
});

test('a key is forgotten after its window, of which the narrowest setting counts [FB-6.01] [C11]', async () => {
  const windowOf = async (key: string) => {
    const text = 'SELECT extract(epoch FROM expires_at - first_seen_at)::int4 AS seconds FROM millrace.ingest_keys WHERE key = $1';
    return (await server.database.api.query(text, [key])).rows[0].seconds;
  };
  await keyed('w1');
  await keyed('w2', { jobType: 'short' });
  const first = await keyed('w3', { jobType: 'short', headers: { 'x-fetchbox-tenant': 'hasty' } });
  expect([await windowOf('w1'), await windowOf('w2'), await windowOf('w3')]).toEqual([3_600, 7_200, 600]);
  await server.database.api.query(`UPDATE millrace.ingest_keys SET expires_at = millrace.clock() - interval '1 ms' WHERE key = 'w3'`);
  const second = await keyed('w3', { jobType: 'short', headers: { 'x-fetchbox-tenant': 'hasty' } });
  expect(second.body.job_id).not.toBe(first.body.job_id);
});

test('of many requests with one key at the same time, from several processes, one makes the job', async () => {
  const child = new URL('./fixtures/submit-manifests.ts', import.meta.url);
  const submissions = { url: `${server.url}/jobs`, key: 'race', body: JSON.stringify(manifest()), count: 10 };
  const processes = Array.from({ length: 3 }, () =>
    fork(child, [JSON.stringify(submissions)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }),
  );
  const answers = (await Promise.all(processes.map((each) => once(each, 'message')))).flatMap(
    ([all]) => all as { status: number; jobId: string }[],
  );
  expect(answers).toHaveLength(30);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
  const { rows } = await server.database.api.query(
    `SELECT (SELECT count(*) FROM millrace.ingest_keys WHERE key = 'race')::int4 AS keys, (SELECT count(*) FROM millrace.ingest_intents)::int4 AS intents`,
  );
  expect(rows[0]).toEqual({ keys: 1, intents: 0 });
  // The losers of the race removed their objects.
  expect(server.objects('fetchbox').filter((path) => path.includes('/manifests/')).length).toBe(2 * (await jobCount()));
});

const jobCount = async (): Promise<number> =>
  (await server.database.api.query('SELECT count(*)::int4 AS n FROM millrace.ingest_jobs')).rows[0].n;

test('a tenant gets an org of its own, also under names that are no slugs [FB-1.11] [C03]', async () => {
  for (const tenant of [
    'crawler-a',
    'Crawler A',
    '../../etc',
    'constructor',
    '__proto__',
    'millrace.system',
    "'; DROP TABLE x; --",
    'x'.repeat(128),
  ]) {
    const [one, two] = [
      await server.accepted({ headers: { 'x-fetchbox-tenant': tenant } }),
      await server.accepted({ headers: { 'x-fetchbox-tenant': tenant } }),
    ];
    const [first, second] = [(await server.get(`/jobs/${one}`)).body, (await server.get(`/jobs/${two}`)).body];
    expect(first.tenant).toBe(tenant);
    expect(first.org_id).toBe(second.org_id);
    expect(first.org).not.toBe('default');
    expect((await server.get(`/jobs?tenant=${encodeURIComponent(tenant)}`)).body.items).toHaveLength(2);
  }
  const { status } = await server.submit({ body: manifest(), headers: { 'x-fetchbox-tenant': 'x'.repeat(129) } });
  expect(status).toBe(400);
});

test('a request without a tenant belongs to the default org, and a refused one creates no org', async () => {
  const jobId = await server.accepted({});
  expect((await server.get(`/jobs/${jobId}`)).body).toMatchObject({ org: 'default', tenant: null });
  await server.submit({ body: manifest({ resources: [] }), headers: { 'x-fetchbox-tenant': 'never-seen' } });
  const { rows } = await server.database.api.query(`SELECT FROM millrace.orgs WHERE external_ref = 'never-seen'`);
  expect(rows).toEqual([]);
});

test('attributes.tenant reaches the handler only, and the log warns if it differs from the header [C07]', async () => {
  const body = manifest({ attributes: { tenant: 'other' } });
  const jobId = await server.accepted({ body, headers: { 'x-fetchbox-tenant': 'mine' } });
  expect((await server.get(`/jobs/${jobId}`)).body.tenant).toBe('mine');
  const warning = (await logOf(jobId)).find(({ event }) => event === 'tenant.mismatch');
  expect(warning).toMatchObject({ level: 'warn', details: { header: 'mine', attribute: 'other' } });
});

test('an API key is not needed, and is ignored, while ingest.auth is "none" [FB-1.02] [FB-1.03]', async () => {
  const { key } = await createKey(server.database, { orgId: '00000000-0000-4000-8000-000000000000', scopes: ['jobs:read'] });
  expect((await server.submit({ body: manifest(), headers: { authorization: `Bearer ${key}` } })).status).toBe(202);
  expect((await server.submit({ body: manifest(), headers: { authorization: 'Bearer nonsense' } })).status).toBe(202);
});
