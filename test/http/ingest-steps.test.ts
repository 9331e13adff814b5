import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import * as library from '../../src/index.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { until } from '../until.ts';
import { manifest, useIngest } from './ingest-fixture.ts';

const server = useIngest({ toml: '[operators]\nauth = "none"\n[job_types.gallery]\n[retention]\nledger = "10d"' });

const query = async (text: string, values: unknown[] = []) => (await server.database.maintenance.query(text, values)).rows;

test('the job, its tasks and its messages are written by one transaction, which the response waits for [FB-1.48] [FB-1.49] [FB-1.62] [C93]', async () => {
  const resources = Array.from({ length: 3 }, (_, n) => ({ id: `r${n}`, url: server.origin.file(() => {}) }));
  const writers = new Set<string>();
  // The rows as they were inserted. Later changes are written by other transactions.
  await query(`CREATE TABLE inserted (source text, job_id uuid, txid xid8);
    CREATE FUNCTION note_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO inserted VALUES (TG_TABLE_NAME, (to_jsonb(NEW)->>TG_ARGV[0])::uuid, pg_current_xact_id()); RETURN NULL; END $$`);
  // One table after the other, and the triggers stay: a lock on two of them could meet that of a loop which has one and wants the other.
  for (const [table, noted] of [
    ['ingest_jobs', `EXECUTE FUNCTION note_insert('id')`],
    ['ingest_resources', `EXECUTE FUNCTION note_insert('job_id')`],
    ['stream_entries', `WHEN (NEW.stream = 'jobs.tasks') EXECUTE FUNCTION note_insert('job_id')`],
  ])
    await query(`CREATE TRIGGER noted AFTER INSERT ON millrace.${table} FOR EACH ROW ${noted}`);
  const jobId = await server.accepted({ resources });
  const rows = await query('SELECT source, txid::text, count(*)::int4 AS n FROM inserted WHERE job_id = $1 GROUP BY 1, 2 ORDER BY 1', [
    jobId,
  ]);
  for (const { txid } of rows) writers.add(txid);
  expect(rows.map(({ source, n }) => [source, n])).toEqual([
    ['ingest_jobs', 1],
    ['ingest_resources', 3],
    // One row has all messages of the job.
    ['stream_entries', 1],
  ]);
  expect(writers.size).toBe(1);
  await server.operate('POST', `/jobs/${jobId}/cancel`);
});

test('headers carry the options, and members of the body with their names change nothing [FB-1.12]', async () => {
  const options = { job_type: 'gallery', 'X-Fetchbox-Job-Type': 'gallery', idempotency_key: 'k', tenant: 'other' };
  const [one, two] = [await server.accepted({ body: manifest(options) }), await server.accepted({ body: manifest(options) })];
  expect(one).not.toBe(two);
  expect((await server.get(`/jobs/${one}`)).body).toMatchObject({ job_type: 'default', tenant: null, org: 'default' });
  const [kept] = await query('SELECT count(*)::int4 AS n FROM millrace.ingest_keys');
  expect(kept.n).toBe(0);
});

test('nobody is called back, not even a webhook of the org [FB-1.63] [C94]', async () => {
  const calls: string[] = [];
  const hook = server.origin.file((request, response) => {
    let text = '';
    request.on('data', (piece) => {
      text += piece;
    });
    request.on('end', () => {
      calls.push(text);
      response.end();
    });
  });
  const jobId = await server.accepted({
    body: manifest({ callback_url: hook, resources: [{ id: 'a', url: server.origin.file() }], attributes: { callback_url: hook } }),
    headers: { 'x-callback-url': hook },
  });
  const { org_id: orgId } = await server.reached(jobId, 'completed');
  const { key } = await createKey(server.database, { orgId, scopes: ['jobs:write', 'jobs:read'] });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const registered = await fetch(`${server.url}/v1/webhooks`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ url: hook, events: ['*'] }),
  });
  expect([registered.status, await registered.clone().text()]).toEqual([201, expect.any(String)]);
  const { webhook_id } = (await registered.json()) as { webhook_id: string };
  const second = await server.accepted({ resources: [{ id: 'a', url: server.origin.file() }] });
  await server.reached(second, 'completed');
  // The webhook works: this is the only thing it gets, after everything that came before.
  await fetch(`${server.url}/v1/webhooks/${webhook_id}/test`, { method: 'POST', headers, body: '{}' });
  await until('the test of the webhook arrived', () => calls.length > 0);
  expect(calls).toHaveLength(1);
  for (const id of [jobId, second]) expect(calls[0]).not.toContain(id);
  expect(await query('SELECT FROM millrace.jobs WHERE job_type LIKE $1 AND callback_url IS NOT NULL', ['fetchbox.%'])).toEqual([]);
});

test('operators need no token if the configuration says so, on a loopback address only [FB-2.02] [C78]', async () => {
  const { status } = await server.get('/jobs', null);
  expect(status).toBe(200);
  expect(new URL(server.url).hostname).toBe('127.0.0.1');
});

test('every area of the contract is there: submissions, operators, handlers, retention [FB-0.01] [FB-0.02]', async () => {
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as { paths: Record<string, object> };
  const has = (method: string, path: string) => Object.keys(paths[path] ?? {}).includes(method);
  expect(has('post', '/jobs')).toBe(true);
  for (const path of ['/jobs', '/jobs/{job_id}', '/jobs/{job_id}/logs', '/health'])
    expect([path, has('get', `/operators${path}`)]).toEqual([path, true]);
  expect(library.registerIngestHandler).toBeTypeOf('function');
  expect((await server.submit({ jobType: 'gallery', body: manifest() })).status).toBe(202);
  const { retention } = loadConfig({ folder: server.folder, environment: {} }).config.ingest;
  expect([retention.ledgerMs, retention.tasksMs].map((ms) => ms / 86_400_000)).toEqual([10, 7]);
});
