import { expect, test } from 'vitest';
import { NIL_ORG_ID } from '../../src/core/governance/audit-action.ts';
import { ExportChecker } from '../../src/core/governance/verify-export.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { createOrg } from '../../src/services/access/create-org.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();

type Item = Record<string, unknown> & { event: string; details: Record<string, unknown> };

async function rows(query: string, count: number): Promise<Item[]> {
  let items: Item[] = [];
  await until(`${count} rows are in the trail`, async () => {
    items = (await server.get(`/audit?${query}`)).body.items;
    return items.length >= count;
  });
  return items;
}

const exportOf = async (query = ''): Promise<string> => {
  const response = await fetch(`${server.url}/operators/audit/export${query}`, {
    headers: { authorization: 'Bearer operator-token-of-the-tests' },
  });
  expect(response.headers.get('content-type')).toContain('application/x-ndjson');
  return response.text();
};

test('an unauthenticated manifest has the actor fetchbox-ingest and the address of its sender; a cancel has the operator [C08]', async () => {
  let release = () => {};
  const slow = server.origin.file((_, response) => {
    release = () => response.end('late');
  });
  const jobId = await server.accepted({ resources: [{ id: 'slow', url: slow }] });
  await server.operate('POST', `/jobs/${jobId}/cancel`, { body: { reason: 'wrong list' } });
  release();
  const items = await rows('event=ingest.cancelled', 1);
  expect(items[0]).toMatchObject({ actor_type: 'user', actor_id: 'operator', details: { ingest_job_id: jobId, reason: 'wrong list' } });
  const [accepted] = await rows('event=ingest.accepted', 1);
  expect(accepted).toMatchObject({
    actor_type: 'system',
    actor_id: 'fetchbox-ingest',
    details: { ingest_job_id: jobId, resources: 1, peer: '127.0.0.1' },
  });
});

test('an action that concerns no org is in the chain of the nil org, which the token reads and a key does not', async () => {
  await server.operate('POST', '/hosts/cdn.example.com/pause', { body: { reason: 'too slow' } });
  const [paused] = await rows(`org=${NIL_ORG_ID}&event=host.paused`, 1);
  expect(paused).toMatchObject({ org_id: NIL_ORG_ID, actor_id: 'operator', details: { host: 'cdn.example.com', reason: 'too slow' } });
  const org = await createOrg(server.database, { slug: 'acme' });
  const { key } = await createKey(server.database, { orgId: org.id, scopes: ['operator'] });
  await rows('org=acme', 2);
  const own = await server.get('/audit', key);
  expect(own.body.items.map(({ event }: Item) => event)).toEqual(['key.created', 'org.created']);
  expect((await server.get(`/audit?org=${NIL_ORG_ID}`, key)).status).toBe(404);
  expect((await server.get(`/audit/verify?org=${NIL_ORG_ID}`, key)).status).toBe(404);
  expect((await server.get('/audit', null)).status).toBe(401);
  expect((await server.get('/audit?org=__proto__')).status).toBe(404);
});

test('an export has all chains and can be checked; verify finds a change and names its row', async () => {
  const org = await createOrg(server.database, { slug: 'beta' });
  await rows('org=beta', 1);
  const checker = new ExportChecker();
  const lines = (await exportOf()).split('\n').slice(0, -1);
  expect(lines.length).toBeGreaterThan(1);
  for (const line of lines) expect(checker.add(line)).toBeNull();
  expect(checker.end()).toEqual({ kind: 'ok', rows: lines.length });
  expect((await exportOf('?org=beta')).split('\n').length).toBe(2);
  expect((await server.get('/audit/verify')).body).toMatchObject({ ok: true, first_bad: null, set_aside: 0 });
  expect((await server.get('/audit/verify?org=beta')).body).toMatchObject({ ok: true, rows: 1, lag_seconds: expect.any(Number) });
  await server.database.api.query(`UPDATE millrace.audit_rows SET actor_id = 'nobody' WHERE org_id = $1`, [org.id]);
  const { status, body } = await server.get('/audit/verify');
  expect(status).toBe(200);
  expect(body).toMatchObject({ ok: false, first_bad: { org_id: org.id, position: 1, audit_id: expect.any(String) } });
});

test('pages of all orgs together follow each other', async () => {
  const ids: string[] = [];
  for (const slug of ['g1', 'g2', 'g3']) ids.push((await createOrg(server.database, { slug })).id);
  let all: Item[] = [];
  await until('the three orgs are in the trail', async () => {
    all = (await server.get('/audit?event=org.created&limit=1000')).body.items;
    return ids.every((id) => all.some(({ org_id }) => org_id === id));
  });
  const first = (await server.get('/audit?event=org.created&limit=2')).body;
  const second = (await server.get(`/audit?event=org.created&limit=2&cursor=${first.next_cursor}`)).body;
  expect([...first.items, ...second.items]).toEqual(all.slice(0, 4));
  expect((await server.get(`/audit?event=org.created&org=g1&cursor=${first.next_cursor}`)).status).toBe(400);
});
