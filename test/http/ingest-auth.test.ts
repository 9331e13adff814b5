import { expect, test } from 'vitest';
import type { Scope } from '../../src/http/shared/identity.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { createOrg } from '../../src/services/access/create-org.ts';
import { manifest, useIngest } from './ingest-fixture.ts';

const server = useIngest({
  concurrency: 0,
  toml: '[ingest]\nauth = "key"\nrequests_per_minute = 5\nmax_resources = 3\nmax_manifest = "1KB"\nallow_unlisted_job_types = true',
});

let made = 0;

async function orgWithKey(scopes: readonly Scope[] = ['jobs:write', 'operator']): Promise<{ orgId: string; slug: string; key: string }> {
  const { id: orgId, slug } = await createOrg(server.database, { slug: `org-${made++}` });
  return { orgId, slug, key: (await createKey(server.database, { orgId, scopes })).key };
}

const submit = (key: string, headers: Record<string, string> = {}, body: object = manifest()) =>
  server.submit({ body, headers: { authorization: `Bearer ${key}`, ...headers } });

test('with keys, a missing, wrong or weak key is refused [FB-1.56] [FB-7.01] [C78]', async () => {
  const none = await server.submit({ body: manifest() });
  const wrong = await submit('mr_wrong');
  const weak = await submit((await orgWithKey(['jobs:read'])).key);
  expect([none, wrong, weak].map(({ status, body }) => [status, body.error.code])).toEqual([
    [401, 'UNAUTHORIZED'],
    [401, 'UNAUTHORIZED'],
    [403, 'FORBIDDEN'],
  ]);
});

test('the org of the key wins, and a tenant header that names another one is refused [FB-7.01]', async () => {
  const [mine, yours] = [await orgWithKey(), await orgWithKey()];
  for (const tenant of [mine.slug, mine.orgId]) {
    const { status, body } = await submit(mine.key, { 'x-fetchbox-tenant': tenant });
    expect(status).toBe(202);
    expect((await server.get(`/jobs/${body.job_id}`)).body.org_id).toBe(mine.orgId);
  }
  for (const tenant of [yours.slug, 'nobody', '__proto__']) {
    const { status, body } = await submit(mine.key, { 'x-fetchbox-tenant': tenant });
    expect([status, body.error.code]).toEqual([403, 'FORBIDDEN']);
  }
});

test('a configured limit refuses further requests of the org, and of no other, with 429 [FB-1.59] [FB-7.02]', async () => {
  const [greedy, modest] = [await orgWithKey(), await orgWithKey()];
  // The minute may change in between once.
  const answers = await Promise.all(Array.from({ length: 12 }, () => submit(greedy.key)));
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThanOrEqual(2);
  expect(answers.length - refused.length).toBeGreaterThanOrEqual(5);
  expect(refused[0]?.body.error.code).toBe('RATE_LIMITED');
  expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect((await submit(modest.key)).status).toBe(202);
});

test('the limits of the configuration apply [FB-1.21]', async () => {
  const { key } = await orgWithKey();
  const resources = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `${index}`, url: 'https://e.com' }));
  expect((await submit(key, {}, manifest({ resources: resources(3) }))).status).toBe(202);
  expect((await submit(key, {}, manifest({ resources: resources(4) }))).status).toBe(400);
  expect((await submit(key, {}, manifest({ metadata: { pad: 'x'.repeat(1_024) } }))).status).toBe(413);
});

test('unlisted job types use the default handler if that is allowed, and others are still refused [C79]', async () => {
  const { key } = await orgWithKey();
  const { status, body } = await submit(key, { 'x-fetchbox-job-type': 'anything.goes_1' });
  expect(status).toBe(202);
  expect(body.manifest_key).toContain('/manifests/anything.goes_1/');
  for (const jobType of ['..', 'a/b', '-a', '.a']) {
    const refused = await submit(key, { 'x-fetchbox-job-type': jobType });
    expect([jobType, refused.status, refused.body.error.code]).toEqual([jobType, 403, 'UNSUPPORTED_JOB_TYPE']);
  }
});

test('an operator key sees its own org only, at every route [FB-2.01]', async () => {
  const [mine, yours] = [await orgWithKey(), await orgWithKey()];
  const own = (await submit(mine.key)).body.job_id;
  const foreign = (await submit(yours.key)).body.job_id;
  const as = (method: string, path: string) => server.operate(method, path, { token: mine.key }).then(({ status }) => status);
  expect(await as('GET', `/jobs/${own}`)).toBe(200);
  for (const path of [`/jobs/${foreign}`, `/jobs/${foreign}/resources`, `/jobs/${foreign}/logs`]) expect(await as('GET', path)).toBe(404);
  for (const verb of ['retry', 'cancel']) expect(await as('POST', `/jobs/${foreign}/${verb}`)).toBe(404);
  for (const path of ['/hosts', '/proxies']) expect(await as('GET', path)).toBe(403);
  expect(await as('POST', '/hosts/example.com/pause')).toBe(403);
  const listed = (await server.operate('GET', '/jobs', { token: mine.key })).body.items;
  expect(listed.map((job: { org_id: string }) => job.org_id)).toEqual([mine.orgId]);
  expect(await as('GET', `/jobs?org=${yours.slug}`)).toBe(404);
  expect((await server.get(`/jobs/${foreign}`)).body.status).toBe('queued');
});

test('everything below /operators but the health needs the token or an operator key [C78]', async () => {
  const { key: weak } = await orgWithKey(['jobs:write', 'jobs:read']);
  const id = '0197a5b2-6a86-7b0e-9a53-1a2f3a0b7c11';
  const routes = [
    ['GET', '/jobs'],
    ['GET', `/jobs/${id}`],
    ['GET', `/jobs/${id}/resources`],
    ['GET', `/jobs/${id}/logs`],
    ['POST', `/jobs/${id}/retry`],
    ['POST', `/jobs/${id}/cancel`],
    ['GET', '/hosts'],
    ['POST', '/hosts/example.com/pause'],
    ['POST', '/hosts/example.com/resume'],
    ['GET', '/proxies'],
    ['POST', '/proxies/eu/pause'],
    ['POST', '/proxies/eu/resume'],
  ] as const;
  for (const [method, path] of routes) {
    for (const [token, status, code] of [
      [null, 401, 'UNAUTHORIZED'],
      ['operator-token-of-the-test', 401, 'UNAUTHORIZED'],
      [weak, 403, 'FORBIDDEN'],
    ] as const) {
      const answer = await server.operate(method, path, { token });
      expect([method, path, answer.status, answer.body.error.code]).toEqual([method, path, status, code]);
    }
  }
  expect((await server.get('/health', null)).status).toBe(200);
});
