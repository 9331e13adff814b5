/** The package as others install it: built, without the sources. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { emptyDatabase, type TestDatabase } from '../ledger/test-database.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const project = mkdtempSync(join(tmpdir(), 'millrace-package-'));
const installed = join(project, 'node_modules/millrace');
let database: TestDatabase;

const node = async (...args: string[]): Promise<string> => {
  const env = { ...process.env, DATABASE_URL: database.url, NODE_NO_WARNINGS: '1' };
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: project, env });
  return stdout;
};

beforeAll(async () => {
  database = await emptyDatabase();
  await node(join(ROOT, 'scripts/build.ts'), join(installed, 'dist'));
  for (const part of ['package.json', 'bin']) cpSync(join(ROOT, part), join(installed, part), { recursive: true });
  mkdirSync(join(installed, 'node_modules'));
  for (const name of Object.keys(manifest.dependencies)) {
    const link = join(installed, 'node_modules', name);
    mkdirSync(join(link, '..'), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), link);
  }
});

afterAll(async () => {
  database?.drop();
  rmSync(project, { recursive: true, force: true });
});

test('everything it is made of is listed: the program runs with its dependencies alone', async () => {
  expect(await node(join(installed, 'bin/millrace.js'), 'version')).toContain(manifest.version);
  expect(await node(join(installed, 'bin/millrace.js'), 'migrate')).toContain('The schema is at version');
});

test('every entry is there, and a job runs', async () => {
  writeFileSync(
    join(project, 'app.mjs'),
    `import { Millrace } from 'millrace';
     import { MillraceClient } from 'millrace/client';
     import { openTestMillrace } from 'millrace/testing';
     const millrace = await Millrace.open();
     millrace.register({ type: 'double', handler: (_context, { n }) => n * 2 });
     await millrace.start();
     const { jobId } = await millrace.submit({ type: 'double', payload: { n: 21 } });
     const job = await millrace.waitFor(jobId);
     console.log(job.state, job.result.output, typeof MillraceClient, typeof openTestMillrace);
     await millrace.close();`,
  );
  expect(await node('app.mjs')).toBe('completed 42 function function\n');
});

test('what a build makes is packed, and packing builds', () => {
  expect(manifest.files).toEqual(expect.arrayContaining(['bin', 'dist']));
  expect(manifest.scripts.prepack).toBe('npm run build');
});

test('the API page is there, without the package that it was made from', async () => {
  writeFileSync(
    join(project, 'page.mjs'),
    `import { buildServer } from './node_modules/millrace/dist/http/server.js';
     const http = await buildServer({ engine: { limits: { maxPayloadBytes: 1_048_576 } }, authenticator: {}, limiter: {}, doors: [], version: '0' });
     for (const file of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
       const { statusCode, headers, rawPayload } = await http.inject('/docs/' + file);
       console.log(statusCode, headers['content-encoding'], rawPayload.length > 10_000);
     }
     await http.close();`,
  );
  expect(await node('page.mjs')).toBe('200 gzip true\n200 gzip true\n');
});
