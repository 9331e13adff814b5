import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { until } from '../until.ts';
import { type Answer, useIngest } from './ingest-fixture.ts';

const server = useIngest({ concurrency: 0, toml: '[ingest]\nauth = "key"\nallow_unlisted_job_types = true' });

/** The task that erases orgs runs every minute. Here orgs must stay while tests look at their deletion. */
beforeAll(async () => {
  const { status, body } = await server.operate('POST', '/maintenance/deleted_orgs/pause');
  expect([status, body.paused]).toEqual([200, true]);
});

let made = 0;
const newName = () => `made-${process.pid}-${made++}`;

async function newOrg(): Promise<{ org_id: string; name: string }> {
  const { status, body } = await server.operate('POST', '/orgs', { body: { name: newName(), reason: 'a test' } });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body;
}

async function newKey(orgId: string, body: object = {}, token?: string): Promise<Answer> {
  return server.operate('POST', `/orgs/${orgId}/keys`, { body, ...(token === undefined ? {} : { token }) });
}

const operatorKey = async (orgId: string): Promise<string> =>
  (await newKey(orgId, { scopes: ['operator', 'jobs:read', 'jobs:write'] })).body.api_key;

const queue = (path: string, key: string, init: RequestInit = {}) =>
  fetch(`${server.url}/queue/v1${path}`, { ...init, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } });

const submit = (key: string, job: object) =>
  queue('/jobs', key, { method: 'POST', body: JSON.stringify({ type: 't', payload: {}, ...job }) });

async function actions(orgId: string): Promise<{ event: string; actor: string; details: Record<string, unknown> }[]> {
  const { rows } = await server.database.api.query(
    `SELECT event, actor, request_id, details FROM ${ACTIONS} WHERE org_id = $1 ORDER BY id`,
    [orgId],
  );
  expect(rows.every(({ request_id }) => typeof request_id === 'string')).toBe(true);
  return rows;
}

test('an org, a project and a key are created, listed, changed and revoked over HTTP, each with its audit row [N05] [AB-contract.03]', async () => {
  const org = await newOrg();
  expect(org).toMatchObject({ requests_per_minute: null, max_running: null, created_at: expect.stringMatching(/\.\d{3}Z$/) });
  const id = org.org_id;
  const project = await server.operate('POST', `/orgs/${id}/projects`, { body: { name: 'billing' } });
  expect([project.status, project.body]).toMatchObject([201, { org_id: id, name: 'billing' }]);
  const renamed = await server.operate('PATCH', `/orgs/${id}/projects/${project.body.project_id}`, { body: { name: 'invoices' } });
  expect(renamed.body).toEqual({ ...project.body, name: 'invoices' });
  expect((await server.get(`/orgs/${id}/projects`)).body).toEqual({ items: [renamed.body], next_cursor: null });

  const key = await newKey(id, {
    name: 'shop',
    scopes: ['jobs:write', 'jobs:read'],
    project_id: project.body.project_id,
    expires_in: '1h',
  });
  expect(key.status).toBe(201);
  expect(Object.keys(key.body).sort()).toEqual(
    ['api_key', 'created_at', 'expires_at', 'key_id', 'name', 'org_id', 'project_id', 'scopes'].sort(),
  );
  expect((await queue('/jobs', key.body.api_key)).status).toBe(200);
  const listed = (await server.get(`/orgs/${id}/keys`)).body.items;
  expect(listed).toMatchObject([{ key_id: key.body.key_id, status: 'active', scopes: ['jobs:write', 'jobs:read'], revoked_at: null }]);
  expect(JSON.stringify(listed)).not.toContain(key.body.api_key);

  const revoked = await server.operate('DELETE', `/orgs/${id}/keys/${key.body.key_id}`, { body: { reason: 'leaked' } });
  expect([revoked.status, revoked.body.key_id]).toEqual([200, key.body.key_id]);
  expect((await queue('/jobs', key.body.api_key)).status).toBe(403);
  expect((await server.operate('DELETE', `/orgs/${id}/keys/${key.body.key_id}`)).status).toBe(200);

  const name = newName();
  const changed = await server.operate('PATCH', `/orgs/${id}`, { body: { name, requests_per_minute: 7, max_running: 2 } });
  expect(changed.body).toEqual({ ...org, name, requests_per_minute: 7, max_running: 2 });
  expect((await server.operate('PATCH', `/orgs/${id}`, { body: { max_running: null } })).body).toMatchObject({ max_running: null, name });
  expect((await server.get(`/orgs/${id}`)).body).toMatchObject({ name, requests_per_minute: 7 });

  const seen = await actions(id);
  expect(seen.map(({ event }) => event)).toEqual([
    ...['org.created', 'project.created', 'project.changed', 'key.created', 'key.revoked', 'org.changed', 'org.changed'],
  ]);
  expect(seen.every(({ actor }) => actor === 'user:operator')).toBe(true);
  expect(seen[4]?.details).toEqual({ key_id: key.body.key_id, reason: 'leaked' });
  expect(JSON.stringify(seen)).not.toContain(key.body.api_key);
});

test('lists of orgs, projects and keys come in pages, and a cursor belongs to one list of one org', async () => {
  const { org_id: id } = await newOrg();
  const { org_id: other } = await newOrg();
  for (const name of ['c', 'a', 'b']) {
    await server.operate('POST', `/orgs/${id}/projects`, { body: { name } });
    await newKey(id, { name });
  }
  for (const [path, order] of [
    [`/orgs/${id}/projects`, ['a', 'b', 'c']],
    [`/orgs/${id}/keys`, ['c', 'a', 'b']],
  ] as const) {
    const first = (await server.get(`${path}?limit=2`)).body;
    const second = (await server.get(`${path}?limit=2&cursor=${first.next_cursor}`)).body;
    expect([...first.items, ...second.items].map(({ name }) => name)).toEqual(order);
    expect(second.next_cursor).toBeNull();
    const foreign = path.replace(id, other);
    expect((await server.get(`${foreign}?cursor=${first.next_cursor}`)).status).toBe(400);
    expect((await server.get(`/orgs?cursor=${first.next_cursor}`)).status).toBe(400);
  }
  const names: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Answer = await server.get(`/orgs?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`);
    names.push(...page.body.items.map((org: { name: string }) => org.name));
    cursor = page.body.next_cursor;
  } while (cursor !== null);
  const { rows } = await server.database.api.query(
    `SELECT slug FROM millrace.orgs WHERE deleting_at IS NULL AND slug <> 'millrace.system' ORDER BY slug`,
  );
  expect(names).toEqual(rows.map(({ slug }) => slug));
});

test('a key with the scope operator sees and manages its own org, and gives no scope that it lacks [N04] [AB-sec.01]', async () => {
  const [mine, yours] = [await newOrg(), await newOrg()];
  const token = await operatorKey(mine.org_id);
  const theirKey = (await newKey(yours.org_id)).body.key_id;
  expect((await server.get('/orgs', token)).body.items).toEqual([mine]);
  expect((await server.get(`/orgs/${mine.org_id}`, token)).body).toEqual(mine);
  for (const [method, path, body] of [
    ['GET', `/orgs/${yours.org_id}`, undefined],
    ['PATCH', `/orgs/${yours.org_id}`, { name: newName() }],
    ['DELETE', `/orgs/${yours.org_id}`, { confirm: yours.name }],
    ['GET', `/orgs/${yours.org_id}/projects`, undefined],
    ['POST', `/orgs/${yours.org_id}/projects`, { name: 'x' }],
    ['GET', `/orgs/${yours.org_id}/keys`, undefined],
    ['POST', `/orgs/${yours.org_id}/keys`, {}],
    ['DELETE', `/orgs/${yours.org_id}/keys/${theirKey}`, {}],
    ['DELETE', `/orgs/${mine.org_id}/keys/${theirKey}`, {}],
  ] as const) {
    const { status, body: refused } = await server.operate(method, path, { token, ...(body === undefined ? {} : { body }) });
    expect([method, path, status, refused.error.code]).toEqual([method, path, 404, 'NOT_FOUND']);
  }
  for (const [method, path, body] of [
    ['POST', '/orgs', { name: newName() }],
    ['DELETE', `/orgs/${mine.org_id}`, { confirm: mine.name }],
    ['PATCH', `/orgs/${mine.org_id}`, { requests_per_minute: 1_000_000 }],
    ['POST', `/orgs/${mine.org_id}/keys`, { scopes: ['jobs:cancel'] }],
    ['POST', `/orgs/${mine.org_id}/keys`, { scopes: ['jobs:read', '__proto__'] }],
    ['POST', `/orgs/${mine.org_id}/keys`, {}],
  ] as const) {
    expect([method, path, (await server.operate(method, path, { token, body })).status]).toEqual([method, path, 403]);
  }
  const given = await newKey(mine.org_id, { scopes: ['jobs:read'] }, token);
  expect(given.status).toBe(201);
  expect((await actions(mine.org_id)).at(-1)).toMatchObject({ event: 'key.created', actor: expect.stringMatching(/^api_key:/) });
  expect((await server.operate('PATCH', `/orgs/${mine.org_id}`, { token, body: { name: newName() } })).status).toBe(200);
  const bound = await newKey(mine.org_id, { scopes: [...API_KEY_SCOPES] });
  const ofProject = (await server.operate('POST', `/orgs/${mine.org_id}/projects`, { body: { name: 'p' } })).body.project_id;
  const narrow = await newKey(mine.org_id, { scopes: [...API_KEY_SCOPES], project_id: ofProject });
  expect((await server.get('/orgs', bound.body.api_key)).status).toBe(200);
  expect((await server.get('/orgs', narrow.body.api_key)).status).toBe(403);
  expect((await server.get('/orgs', null)).status).toBe(401);
});

test('an org is deleted only with its name, its keys stop working at once, and it is gone from every list', async () => {
  const org = await newOrg();
  const path = `/orgs/${org.org_id}`;
  const { api_key: key } = (await newKey(org.org_id, { scopes: [...API_KEY_SCOPES] })).body;
  expect((await submit(key, {})).status).toBe(202);
  for (const confirm of ['', 'other', org.name.toUpperCase(), '__proto__']) {
    expect((await server.operate('DELETE', path, { body: { confirm } })).status).toBe(400);
  }
  expect((await server.operate('DELETE', path, { body: {} })).status).toBe(400);
  expect((await server.get(path)).status).toBe(200);
  const deleted = await server.operate('DELETE', path, { body: { confirm: org.name, reason: 'contract ended' } });
  expect([deleted.status, deleted.body]).toEqual([202, { org_id: org.org_id, state: 'deleting' }]);
  expect((await submit(key, {})).status).toBe(403);
  expect((await server.get(path, key)).status).toBe(403);
  for (const [method, at, body] of [
    ['GET', path, undefined],
    ['DELETE', path, { confirm: org.name }],
    ['POST', `${path}/keys`, {}],
    ['GET', `${path}/projects`, undefined],
  ] as const) {
    expect((await server.operate(method, at, body === undefined ? {} : { body })).status).toBe(404);
  }
  expect(JSON.stringify((await server.get('/orgs?limit=1000')).body)).not.toContain(org.org_id);
  expect((await actions(org.org_id)).at(-1)).toMatchObject({
    event: 'org.deleted',
    actor: 'user:operator',
    details: { name: org.name, reason: 'contract ended' },
  });
  const { rows } = await server.database.api.query('SELECT deleting_at, deleting_by FROM millrace.orgs WHERE id = $1', [org.org_id]);
  expect(rows).toEqual([{ deleting_at: expect.any(Date), deleting_by: 'user:operator' }]);
});

test('the keys of an org whose deletion another process began stop working within seconds', async () => {
  const org = await newOrg();
  const { api_key: key } = (await newKey(org.org_id)).body;
  expect((await queue('/jobs', key)).status).toBe(200);
  await server.database.api.query('UPDATE millrace.orgs SET deleting_at = millrace.clock() WHERE id = $1', [org.org_id]);
  await until('the key is refused', async () => (await queue('/jobs', key)).status, 403);
});

test('of two requests that delete an org at the same time, one does', async () => {
  const org = await newOrg();
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => server.operate('DELETE', `/orgs/${org.org_id}`, { body: { confirm: org.name } })),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 404, 404, 404]);
  expect((await actions(org.org_id)).filter(({ event }) => event === 'org.deleted')).toHaveLength(1);
});

test('neither the org "default" nor the org of the system can be deleted, and names are judged', async () => {
  expect((await server.operate('DELETE', `/orgs/${DEFAULT_ORG_ID}`, { body: { confirm: 'default' } })).status).toBe(409);
  expect((await server.operate('PATCH', `/orgs/${DEFAULT_ORG_ID}`, { body: { name: newName() } })).status).toBe(409);
  const system = '00000000-0000-4000-8000-000000000001';
  expect((await server.operate('DELETE', `/orgs/${system}`, { body: { confirm: 'millrace.system' } })).status).toBe(404);
  expect((await server.get(`/orgs/${system}`)).status).toBe(404);
  const taken = await newOrg();
  expect((await server.operate('POST', '/orgs', { body: { name: taken.name } })).status).toBe(409);
  expect((await server.operate('PATCH', `/orgs/${(await newOrg()).org_id}`, { body: { name: taken.name } })).status).toBe(409);
  for (const name of ['', '__proto__', '../x', 'A', 'x'.repeat(101), 'nul\u0000', 'millrace.own', 'a b']) {
    expect([name, (await server.operate('POST', '/orgs', { body: { name } })).status]).toEqual([name, 400]);
    expect([name, (await server.operate('PATCH', `/orgs/${taken.org_id}`, { body: { name } })).status]).toEqual([name, 400]);
  }
  for (const name of ['', ' x', 'x'.repeat(101), 'nul\u0000', '\ud800']) {
    expect([name, (await server.operate('POST', `/orgs/${taken.org_id}/projects`, { body: { name } })).status]).toEqual([name, 400]);
  }
  for (const name of ['__proto__', 'constructor', '../x', 'é 👩']) {
    expect((await server.operate('POST', `/orgs/${taken.org_id}/projects`, { body: { name } })).body).toMatchObject({ name });
  }
  for (const id of ['x', '__proto__', '%00', randomUUID()]) expect((await server.get(`/orgs/${id}`)).status).toBe(404);
});

test('a project that the org does not have is refused for jobs, batches, schedules and keys [AB-principle.03] [AB-contract.04]', async () => {
  const [mine, yours] = [await newOrg(), await newOrg()];
  const project = async ({ org_id }: { org_id: string }) =>
    (await server.operate('POST', `/orgs/${org_id}/projects`, { body: { name: 'p' } })).body.project_id;
  const [own, foreign] = [await project(mine), await project(yours)];
  const { api_key: key } = (await newKey(mine.org_id, { scopes: ['jobs:read', 'jobs:write'] })).body;
  for (const project_id of [foreign, randomUUID()]) {
    const refused = await submit(key, { project_id });
    expect([refused.status, (await refused.json()).details[0]]).toMatchObject([400, { field: 'project_id', code: 'UNKNOWN_PROJECT' }]);
    const jobs = [
      { type: 't', payload: {}, project_id },
      { type: 't', payload: {} },
    ];
    const batch = await queue('/jobs/batch', key, { method: 'POST', body: JSON.stringify({ jobs, atomic: false }) });
    expect(await batch.json()).toMatchObject({ accepted: 1, rejected: 1 });
    const schedule = { key: 'k', cron: '@daily', type: 't', payload: {}, project_id };
    expect((await queue('/schedules', key, { method: 'POST', body: JSON.stringify(schedule) })).status).toBe(400);
    expect((await newKey(mine.org_id, { project_id })).status).toBe(400);
  }
  for (const project_id of [own, own.toUpperCase()]) {
    const accepted = await submit(key, { project_id });
    expect(accepted.status).toBe(202);
    const { job_id } = await accepted.json();
    expect(await (await queue(`/jobs/${job_id}`, key)).json()).toMatchObject({ project_id: own });
  }
});

test('one idempotency key in two orgs and in two projects gives four jobs [AB-idem.03] [AB-idem.04]', async () => {
  const ids = new Set<string>();
  for (const org of [await newOrg(), await newOrg()]) {
    const { project_id } = (await server.operate('POST', `/orgs/${org.org_id}/projects`, { body: { name: 'p' } })).body;
    const { api_key: key } = (await newKey(org.org_id)).body;
    for (const more of [{}, { project_id }]) {
      for (let repeat = 0; repeat < 2; repeat++) ids.add((await (await submit(key, { idempotency_key: 'same', ...more })).json()).job_id);
    }
  }
  expect(ids.size).toBe(4);
});

test('the operator token is refused at /queue/v1 [N04]', async () => {
  expect((await queue('/jobs', 'operator-token-of-the-tests')).status).toBe(401);
});
