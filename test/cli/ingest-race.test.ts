import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { manifest, Origin } from '../http/ingest-fixture.ts';
import { migratedDatabase } from '../ledger/test-database.ts';
import { until } from '../until.ts';
import { start } from './program.ts';

const TOKEN = 'operator-token-of-the-tests';

async function newPlace(toml = '') {
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
  const surroundings = { cwd: folder, database: database.url, env: { MILLRACE_HOME: folder, MILLRACE_OPERATOR_TOKEN: TOKEN } };
  return { folder, surroundings, query: async (text: string) => (await client.query(text)).rows };
}

test('of many requests with one key at several server processes, one makes the job [FB-1.39] [C12]', async () => {
  const place = await newPlace();
  const servers = Array.from({ length: 2 }, () => start(['serve', '--json', '--port', '0'], place.surroundings));
  const urls = await Promise.all(
    servers.map(async (server) => JSON.parse((await server.said(/.*"event":"listening".*\n/))[0]).url as string),
  );
  expect(new Set(urls).size).toBe(2);
  const child = new URL('../http/fixtures/submit-manifests.ts', import.meta.url);
  const callers = urls.flatMap((url) =>
    [1, 2].map(() =>
      fork(child, [JSON.stringify({ url: `${url}/jobs`, key: 'race', body: JSON.stringify(manifest()), count: 10 })], {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      }),
    ),
  );
  const answers = (await Promise.all(callers.map((each) => once(each, 'message')))).flatMap(
    ([all]) => all as { status: number; jobId: string }[],
  );
  expect(answers).toHaveLength(40);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
  const [rows] = await place.query(`SELECT (SELECT count(*) FROM millrace.ingest_jobs)::int4 AS jobs,
    (SELECT count(*) FROM millrace.ingest_resources)::int4 AS resources, (SELECT count(*) FROM millrace.ingest_keys)::int4 AS keys,
    (SELECT count(*) FROM millrace.jobs WHERE job_type = 'fetchbox.fetch')::int4 AS tasks`);
  expect(rows).toEqual({ jobs: 1, resources: 1, keys: 1, tasks: 1 });
  const stored = () => readdirSync(join(place.folder, 'objects', 'fetchbox', 'manifests', 'default'));
  await until('the losers removed their objects', () => stored().filter((name) => !name.startsWith('.%')), [answers[0]?.jobId as string]);
});

test('a handler prepares manifests in the server process, and takes its last step in the worker process [FB-3.24] [FB-3.25]', async () => {
  const place = await newPlace('[job_types.gallery]\nhandler = "shop::Handler"\n[job_types.gallery.options]\ncolour = "red"');
  const origin = new Origin();
  await origin.open();
  onTestFinished(() => origin.close());
  const module = new URL('../../src/index.ts', import.meta.url).href;
  writeFileSync(
    join(place.folder, 'handlers.ts'),
    `import { registerIngestHandler } from '${module}';
     import { writeFileSync } from 'node:fs';
     const note = (name, { options }) => writeFileSync(name, JSON.stringify({ pid: process.pid, options }));
     registerIngestHandler('shop::Handler', {
       prepareManifest: (manifest, context) => (note('prepared.json', context), manifest),
       finalizeJob: (_, context) => note('finalized.json', context),
     });`,
  );
  const up = start(['serve', '--json', '--port', '0', './handlers.ts'], place.surroundings);
  const server = JSON.parse((await up.said(/.*"event":"listening".*\n/))[0]) as { url: string; pid: number };
  const work = start(['work', '--json', './handlers.ts'], place.surroundings);
  const worker = JSON.parse((await work.said(/.*"event":"serving".*\n/))[0]) as { pid: number };
  const headers = { 'content-type': 'application/json', 'x-fetchbox-job-type': 'gallery' };
  const body = JSON.stringify(manifest({ resources: [{ id: 'a', url: origin.file() }] }));
  expect((await fetch(`${server.url}/jobs`, { method: 'POST', headers, body })).status).toBe(202);
  const textOf = (name: string) => (existsSync(join(place.folder, name)) ? readFileSync(join(place.folder, name), 'utf8') : '');
  await until('the last step is taken, and its file is whole', () => textOf('finalized.json').endsWith('}}'));
  const noted = (name: string) => JSON.parse(textOf(name));
  expect(noted('prepared.json')).toEqual({ pid: server.pid, options: { colour: 'red' } });
  expect(noted('finalized.json')).toEqual({ pid: worker.pid, options: { colour: 'red' } });
});
