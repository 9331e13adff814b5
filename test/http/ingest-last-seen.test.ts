import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../until.ts';
import { IngestServer } from './ingest-fixture.ts';
import { MortalProxy } from './mortal-proxy.ts';

const [living, dead] = [new MortalProxy(), new MortalProxy()];
let server: IngestServer;

beforeAll(async () => {
  await Promise.all([living.start(), dead.start()]);
  dead.die();
  server = new IngestServer({
    toml: `
[job_types.proxied.proxy]
primary = "eu"
fallbacks = ["global"]
[proxies.eu]
urls = ["${living.url}"]
[proxies.global]
urls = ["${dead.url}"]
`,
  });
  await server.open();
});
afterAll(async () => {
  await server.close();
  living.close();
  dead.close();
});

type Seen = { id: string; status: string; http_status: number | null; proxy: string | null; error: { code: string } | null };
type Line = { event: string; resource_id?: string; details?: Record<string, unknown> };

const resourcesOf = async (jobId: string): Promise<Seen[]> => (await server.get(`/jobs/${jobId}/resources`)).body.items;
const said = ({ id, http_status, proxy, error }: Seen) => `${id}: ${error?.code} ${http_status} ${proxy}`;
const linesOf = async (jobId: string, event: string) =>
  ((await server.get(`/jobs/${jobId}/logs`)).body as Line[])
    .filter((line) => line.event === event)
    .map(({ resource_id, details }) => `${resource_id}: ${details?.code} ${details?.http_status} ${details?.proxy}`)
    .sort();

const wrong = { checksum_hint: `sha256:${'0'.repeat(64)}` };

test('a resource that failed shows the last status and the last proxy pool, and so does its log [FB-2.14] [FB-3.06] [C127]', async () => {
  const resources = [
    { id: 'altered', url: server.origin.file('other bytes'), tags: wrong },
    { id: 'gone', url: server.origin.status(410) },
    { id: 'scheme', url: 'ftp://127.0.0.1/file' },
  ];
  const expected = (pool: string | null) => [`altered: CHECKSUM_MISMATCH 200 ${pool}`, `gone: HTTP_410 410 ${pool}`];
  const proxied = await server.accepted({ jobType: 'proxied', resources });
  const direct = await server.accepted({ resources });
  for (const [jobId, pool] of [
    [proxied, 'eu'],
    [direct, null],
  ] as const) {
    await server.reached(jobId, 'failed');
    expect((await resourcesOf(jobId)).map(said).slice(0, 2)).toEqual(expected(pool));
    expect((await linesOf(jobId, 'resource.failed')).slice(0, 2)).toEqual(expected(pool));
  }
  expect((await resourcesOf(direct)).map(said)[2]).toBe('scheme: UNSUPPORTED_SCHEME null null');
});

test('a resource that waits for its next attempt shows the pool that failed last, and the status that another pool received [C127]', async () => {
  const forbidden = server.origin.status(403);
  const loop: string = server.origin.file((_, response) => response.writeHead(307, { location: loop }).end());
  const resources = [
    { id: 'forbidden', url: forbidden },
    { id: 'loop', url: loop },
  ];
  const jobId = await server.accepted({ jobType: 'proxied', resources });
  await until(
    'both have failed',
    async () => (await resourcesOf(jobId)).map(said),
    (all) => all.every((each) => !each.includes('undefined')),
  );
  expect((await resourcesOf(jobId)).map(said)).toEqual(['forbidden: PROXY_FAILED 403 global', 'loop: TOO_MANY_REDIRECTS 307 eu']);
  expect((await linesOf(jobId, 'resource.attempt_failed'))[0]).toBe('forbidden: PROXY_FAILED 403 global');
  expect(JSON.stringify((await server.get(`/jobs/${jobId}/logs`)).body)).not.toContain('hunter2');
  await server.operate('POST', `/jobs/${jobId}/cancel`);
});

test('a resource that completes after a failure shows what completed it', async () => {
  let requests = 0;
  const url = server.origin.file((_, response) => response.writeHead(++requests === 1 ? 500 : 200).end('content'));
  const jobId = await server.accepted({ resources: [{ id: 'a', url }] });
  await server.reached(jobId, 'completed');
  expect((await resourcesOf(jobId)).map(said)).toEqual(['a: undefined 200 null']);
});
