import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../until.ts';
import { IngestServer } from './ingest-fixture.ts';
import { MortalProxy } from './mortal-proxy.ts';

const [primary, fallback] = [new MortalProxy(), new MortalProxy()];
let server: IngestServer;

beforeAll(async () => {
  await Promise.all([primary.start(), fallback.start()]);
  server = new IngestServer({
    concurrency: 2,
    toml: `
[job_types.proxied.proxy]
primary = "eu"
fallbacks = ["global"]
[proxies.eu]
urls = ["${primary.url}"]
[proxies.global]
urls = ["${fallback.url}"]
`,
  });
  await server.open();
});
afterAll(async () => {
  await server.close();
  primary.close();
  fallback.close();
});

type Line = { event: string; resource_id?: string; details?: Record<string, unknown> };

const poolOf = async (pool: string) =>
  (await server.get('/proxies')).body.items.find((each: { pool: string }) => each.pool === pool) as {
    healthy: boolean;
    addresses: { address: string; ejected_until: string | null; failures: number }[];
  };

test('a primary proxy that dies is replaced by the fallback, and used again once it works [FB-3.04] [FB-3.05] [FB-3.06]', async () => {
  let served = 0;
  const url = server.origin.file((_, response) => {
    // In the middle of the manifest, while a download goes through it.
    if (++served === 5) primary.die();
    response.end('content');
  });
  const resources = Array.from({ length: 12 }, (_, n) => ({ id: `r${n}`, url: `${url}?n=${n}` }));
  const jobId = await server.accepted({ jobType: 'proxied', resources });
  expect(await server.reached(jobId, 'completed', 'failed')).toMatchObject({ status: 'completed', resource_completed: 12 });
  const { items } = (await server.get(`/jobs/${jobId}/resources`)).body;
  const byPool = (pool: string) => items.filter(({ proxy }: { proxy: string }) => proxy === pool).map(({ id }: { id: string }) => id);
  expect(byPool('eu').length).toBeGreaterThanOrEqual(3);
  expect(byPool('eu').length + byPool('global').length).toBe(12);
  expect(fallback.tunnels).toBeGreaterThan(0);

  // The log tells the story: each resource of the fallback says from where it changed and why.
  const lines: Line[] = (await server.get(`/jobs/${jobId}/logs`)).body;
  const changes = lines.filter(({ event }) => event === 'resource.proxy_changed');
  expect(changes.map(({ resource_id }) => resource_id).sort()).toEqual(byPool('global').sort());
  for (const { details } of changes) expect(details).toEqual({ from: 'eu', to: 'global', reason: expect.any(String) });
  expect(JSON.stringify(lines)).not.toContain('hunter2');
  await until(
    'the operators see that the proxy is not used',
    async () => {
      // After some seconds it is tried again, and must fail again.
      await server.reached(await server.accepted({ jobType: 'proxied', resources: [{ id: 'a', url }] }), 'completed');
      const [pool, { status, body }] = [await poolOf('eu'), await server.get('/health', null)];
      return [pool.healthy, status, body.status, body.components.proxy_pools.status].join(' ');
    },
    'false 200 degraded degraded',
  );

  await primary.start();
  const before = primary.tunnels;
  let last = '';
  await until(
    'the primary is used again',
    async () => {
      last = await server.accepted({ jobType: 'proxied', resources: [{ id: 'a', url: server.origin.file() }] });
      await server.reached(last, 'completed');
      return (await server.get(`/jobs/${last}/resources`)).body.items[0].proxy;
    },
    'eu',
  );
  expect(primary.tunnels).toBeGreaterThan(before);
  const events = (await server.get(`/jobs/${last}/logs`)).body.map(({ event }: Line) => event);
  expect(events).not.toContain('resource.proxy_changed');
  await until('the operators see that it works', async () => (await poolOf('eu')).healthy);
  expect(JSON.stringify((await server.get('/proxies')).body)).not.toContain('hunter2');
});
