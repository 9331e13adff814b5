import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { manifest, Origin } from '../http/ingest-fixture.ts';
import { migratedDatabase } from '../ledger/test-database.ts';
import { until } from '../until.ts';
import { ask, type Running, run, start } from './program.ts';

const origin = new Origin();
beforeAll(() => origin.open());
afterAll(() => origin.close());

type Place = { folder: string; database: string; query(text: string): Promise<Record<string, unknown>[]> };

async function newPlace(toml = ''): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-cli-'));
  const database = await migratedDatabase();
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    database.drop();
    rmSync(folder, { recursive: true, force: true });
  });
  writeFileSync(join(folder, 'millrace.toml'), `${toml}\n[egress]\nallow = ["127.0.0.1/32"]\n`);
  return { folder, database: database.url, query: async (text) => (await client.query(text)).rows };
}

const surroundings = ({ folder, database }: Place, env: Record<string, string> = {}) => ({ cwd: folder, database, env });

async function up(place: Place, ...args: string[]): Promise<{ url: string; running: Running; facts: Record<string, string> }> {
  const running = start(['up', '--json', '--port', '0', ...args], surroundings(place));
  const [line] = await running.said(/.*"event":"up".*\n/);
  const facts = JSON.parse(line);
  return { url: facts.url, running, facts };
}

test('the operator token is made once, shown once, and readable by its owner only [C78]', async () => {
  const place = await newPlace();
  const first = await up(place);
  const file = join(place.folder, '.millrace', 'operator-token');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const token = readFileSync(file, 'utf8').trim();
  expect(first.facts.operatorToken).toBe(token);
  const list = (url: string, given: string) =>
    fetch(`${url}/operators/jobs`, { headers: { authorization: `Bearer ${given}` } }).then(({ status }) => status);
  expect([await list(first.url, token), await list(first.url, `${token}x`)]).toEqual([200, 401]);
  first.running.kill('SIGTERM');
  await first.running.ended;
  const second = await up(place);
  expect(second.facts.operatorToken).toBeUndefined();
  expect(await list(second.url, token)).toBe(200);
});

test('a handler that no module registers stops the start with a sentence, of workers too [FB-3.13]', async () => {
  const place = await newPlace('[job_types.gallery]\nhandler = "shop::Missing"');
  for (const command of ['up', 'work']) {
    const { code, stderr } = await run([command, ...(command === 'up' ? ['--port', '0'] : [])], surroundings(place));
    expect([command, code]).toEqual([command, 1]);
    expect(stderr).toContain('job_types.gallery.handler is "shop::Missing", and no module registered a handler under that path');
  }
});

test('the commands submit, watch, show, retry, export and import [FB-4.08] [N48]', async () => {
  const place = await newPlace('[job_types.gallery]\nhandler = "shop::Handler"');
  const module = new URL('../../src/index.ts', import.meta.url).href;
  writeFileSync(
    join(place.folder, 'handlers.ts'),
    `import { registerIngestHandler } from '${module}';
     import { writeFileSync } from 'node:fs';
     registerIngestHandler('shop::Handler', { finalizeJob: (summary) => writeFileSync('summary.json', JSON.stringify(summary)) });`,
  );
  const { url } = await up(place, './handlers.ts');
  let isFixed = false;
  const flaky = origin.file((_, response) => response.writeHead(isFixed ? 200 : 404).end('x'));
  const body = manifest({
    resources: [
      { id: 'a', url: origin.file() },
      { id: 'b', url: flaky },
    ],
  });
  writeFileSync(join(place.folder, 'manifest.json'), JSON.stringify(body));
  const here = surroundings(place);
  const at = ['--url', url];
  const { job_id: id } = await ask<{ job_id: string }>(
    ['fetch', 'submit', 'manifest.json', '--job-type', 'gallery', '--tenant', 'acme', '--key', 'k', ...at],
    here,
  );
  const watched = await run(['fetch', 'watch', id, ...at], here);
  expect(watched.code).toBe(1);
  expect(watched.stdout).toContain('1 of 2 completed, 1 failed');
  const shown = await run(['fetch', 'show', id, ...at], here);
  expect(shown.stdout).toMatch(/b +failed .*HTTP_404/);
  isFixed = true;
  expect(await ask(['fetch', 'retry', id, '--reason', 'fixed', ...at], here)).toEqual({ retried: 1 });
  expect((await run(['fetch', 'watch', id, ...at], here)).code).toBe(0);
  expect((await run(['fetch', 'logs', id, ...at], here)).stdout).toContain('An operator retried 1 downloads.');
  const listed = await ask<{ items: { job_id: string }[] }>(['fetch', 'list', '--tenant', 'acme', ...at], here);
  expect(listed.items.map(({ job_id }) => job_id)).toEqual([id]);
  expect((await run(['fetch', 'cancel', id, ...at], here)).stdout).toContain('0 downloads');
  expect((await run(['fetch', 'hosts', ...at], here)).stdout).toContain('127.0.0.1');
  expect((await run(['fetch', 'proxies', ...at], here)).code).toBe(0);
  expect((await run(['fetch', 'show', id, '--token', 'wrong-token-of-somebody', ...at], here)).stderr).toContain('operator token');
  const summary = join(place.folder, 'summary.json');
  await until('the handler was called', () => existsSync(summary) && readFileSync(summary, 'utf8').includes('"completed":2'));

  const exported = await run(['export', '--job-type', 'gallery', '--since', '2020-01-01T00:00:00Z'], here);
  expect([exported.code, exported.stderr]).toEqual([0, 'Exported 1 jobs.\n']);
  const snapshot = JSON.parse(exported.stdout);
  expect(snapshot).toMatchObject({ job_id: id, status: 'completed', resource_total: 2 });
  await place.query('DELETE FROM millrace.ingest_jobs');
  writeFileSync(join(place.folder, 'jobs.ndjson'), exported.stdout);
  expect(await ask(['import', 'jobs.ndjson'], here)).toEqual({ imported: 1, exists: 0, left_out: 0 });
  expect(await ask(['import', 'jobs.ndjson'], here)).toEqual({ imported: 0, exists: 1, left_out: 0 });
  const again = JSON.parse((await run(['export'], here)).stdout);
  expect(again).toEqual({ ...snapshot, log_cursor: again.log_cursor, finalizer: null });
  const wrong = await run(['import', '-'], { ...here, stdin: '{"job_id":"x"}\n' });
  expect([wrong.code, wrong.stderr]).toEqual([
    1,
    expect.stringContaining('Line 1 is not a job of an export: job_id is missing or not valid.'),
  ]);
});

test('a server that is killed while it accepts manifests loses none that it acknowledged, and makes none twice [FB-1.61] [FB-1.62]', async () => {
  const place = await newPlace();
  const acknowledged = new Map<string, string>();
  for (let round = 0; round < 3; round++) {
    const { url, running } = await up(place);
    const send = async (key: string): Promise<void> => {
      const headers = { 'content-type': 'application/json', 'x-fetchbox-job-type': 'default', 'x-fetchbox-idempotency-key': key };
      const resources = [1, 2, 3].map((id) => ({ id: `${id}`, url: origin.file() }));
      const response = await fetch(`${url}/jobs`, { method: 'POST', headers, body: JSON.stringify(manifest({ resources })) });
      const { job_id } = (await response.json()) as { job_id: string };
      // A server that is busy refuses for a moment.
      if (response.status !== 202) return send(key);
      // A repeat after a lost answer finds the job of the first try.
      expect(acknowledged.get(key) ?? job_id).toBe(job_id);
      acknowledged.set(key, job_id);
    };
    const all = Array.from({ length: 40 }, (_, n) => send(`${n}`).catch(() => {}));
    await until('some are acknowledged', () => acknowledged.size >= (round + 1) * 8);
    running.kill('SIGKILL');
    await running.ended;
    await Promise.all(all);
  }
  const { url } = await up(place);
  const rows =
    await place.query(`SELECT i.id, k.key, count(r.*)::int4 AS resources FROM millrace.ingest_jobs i JOIN millrace.ingest_keys k ON k.job_id = i.id
    LEFT JOIN millrace.ingest_resources r ON r.job_id = i.id GROUP BY i.id, k.key`);
  for (const [key, id] of acknowledged) expect(rows.find((row) => row.key === key)).toMatchObject({ id, resources: 3 });
  expect((await place.query('SELECT count(*)::int4 AS n FROM millrace.ingest_jobs'))[0]?.n).toBe(rows.length);
  await until('all jobs have ended', async () => {
    const [open] = await place.query('SELECT count(*)::int4 AS n FROM millrace.ingest_jobs WHERE settled_at IS NULL');
    return open?.n === 0;
  });
  await until('the server is healthy', async () => (await fetch(`${url}/operators/health`)).status, 200);
  const [sums] = await place.query('SELECT sum(completed)::int4 AS completed, sum(failed)::int4 AS failed FROM millrace.ingest_jobs');
  expect(sums).toEqual({ completed: rows.length * 3, failed: 0 });
});
