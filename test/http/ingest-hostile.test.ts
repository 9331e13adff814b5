import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { type Canaries, openCanaries } from '../egress/canaries.ts';
import { HOSTILE } from '../egress/hostile-urls.ts';
import { manifest, useIngest } from './ingest-fixture.ts';

/** Downloads from public addresses only, as by default. */
const server = useIngest({ environment: { MILLRACE_EGRESS_ALLOW: '' } });
const open = useIngest();
let canaries: Canaries;

beforeAll(async () => {
  canaries = await openCanaries();
});
afterAll(() => canaries.close());

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
async function endsOf(resources: readonly { id: string; url: string }[]): Promise<any[]> {
  const jobId = await server.accepted({ resources });
  await server.reached(jobId, 'completed', 'failed');
  return (await server.get(`/jobs/${jobId}/resources?limit=1000`)).body.items;
}

test('no spelling of a hostile address is called, as the URL of a resource [C87]', async () => {
  // Names need a DNS server of their own; the handler's tests have one.
  const spellings = HOSTILE.filter(({ dns }) => dns === undefined).map(({ spelling }) => spelling.replaceAll('{port}', `${canaries.port}`));
  const accepted: { id: string; url: string }[] = [];
  for (const [n, url] of spellings.entries()) {
    const resource = { id: `r${n}`, url };
    const { status, body } = await server.submit({ body: manifest({ resources: [resource] }), headers: { 'x-fetchbox-tenant': 'probe' } });
    if (status === 202) accepted.push(resource);
    else expect([url, status, body.error.code]).toEqual([url, 400, 'INVALID_PAYLOAD']);
  }
  expect(accepted.length).toBeGreaterThan(100);
  const ends = await endsOf(accepted);
  const offenders = ends.filter(
    ({ status, error }) => status !== 'failed' || !['ADDRESS_REFUSED', 'INVALID_URL', 'UNSUPPORTED_SCHEME'].includes(error.code),
  );
  expect(offenders).toEqual([]);
  expect(ends).toHaveLength(accepted.length);
  expect(canaries.accepted()).toBe(0);
});

test('the objects of hostile resource ids lie in the folder of their job, each under a name of its own', async () => {
  const store = new FolderStore(join(open.folder, 'objects'));
  const ids = [
    '../../etc/passwd',
    '..',
    '.',
    '...',
    'a/b',
    'a%2Fb',
    '/etc/passwd',
    '\\..\\x',
    'é'.repeat(128),
    '😀'.repeat(128),
    '~',
    '%00',
  ];
  const resources = ids.map((id) => ({ id, url: open.origin.file(`content of ${id}`) }));
  const jobId = await open.accepted({ resources });
  await open.reached(jobId, 'completed');
  const { items } = (await open.get(`/jobs/${jobId}/resources`)).body;
  expect(items.map(({ id }: { id: string }) => id)).toEqual(ids);
  for (const { id, object_key: key } of items) {
    expect([id, key.startsWith(`default/${jobId}/`), key.split('/').length]).toEqual([id, true, 3]);
    const found = await store.get({ bucket: 'fetchbox', key });
    expect(found === null ? null : await text(found.body)).toBe(`content of ${id}`);
  }
  expect(new Set(items.map(({ object_key }: { object_key: string }) => object_key)).size).toBe(ids.length);
  const found = readdirSync(join(open.folder, 'objects', 'fetchbox', 'default', jobId)).filter((name) => !name.startsWith('.%'));
  expect(found).toHaveLength(ids.length);
  expect(readdirSync(open.folder).sort()).toEqual(['millrace.toml', 'objects']);
  expect(existsSync(join(open.folder, 'objects', 'etc'))).toBe(false);
  const nul = '{"manifest_version":"v1","metadata":{},"resources":[{"id":"../\\u0000","url":"https://example.com"}]}';
  expect((await open.submit({ body: nul })).status).toBe(400);
});
