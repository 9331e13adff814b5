/** Stops by signal, through the real npm and npx: the program ends by itself, and nothing stays behind. */
import { chmodSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isAlive } from '../../src/postgres/postmaster.ts';
import { useLedger } from '../ledger/fixture.ts';
import { makeScratch, postmasterPid, type Scratch } from '../postgres/scratch.ts';
import { type Ended, folderWith, type Running, type Surroundings, start } from './program.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ledger = useLedger();
let scratch: Scratch;

beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

/** A project that has the package installed. */
function project(): string {
  const handlers = 'export const handlers = { echo: (_context, payload) => payload };';
  const cwd = folderWith({ 'package.json': '{ "private": true }', 'handlers.js': handlers });
  mkdirSync(join(cwd, 'node_modules/.bin'), { recursive: true });
  symlinkSync(ROOT, join(cwd, 'node_modules/millrace'));
  symlinkSync('../millrace/bin/millrace.js', join(cwd, 'node_modules/.bin/millrace'));
  return cwd;
}

async function started(args: readonly string[], surroundings: Surroundings): Promise<Running> {
  const running = start(args, surroundings);
  await running.said(/Stop with .*\n/);
  return running;
}

/** Starts a command with an embedded server, sends it a signal, and checks that both ended. Returns how the command ended. */
async function stopped(signal: (running: Running) => void, args: readonly string[], surroundings: Surroundings): Promise<Ended> {
  const home = await scratch.preparedHome();
  const env = { MILLRACE_HOME: home, MILLRACE_SERVER_PORT: '0', ...surroundings.env };
  const running = await started(args, { ...surroundings, env });
  const server = postmasterPid(home);
  expect(server).not.toBeNull();
  signal(running);
  // The output ends when the last process that could write to it has ended.
  const ended = await running.ended;
  expect({ postmaster: postmasterPid(home), serverRuns: isAlive(server!) }).toEqual({ postmaster: null, serverRuns: false });
  return ended;
}

describe.each([
  { signal: 'SIGTERM', to: 'npm alone', send: (running: Running) => running.kill('SIGTERM') },
  { signal: 'SIGTERM', to: 'all processes', send: (running: Running) => running.killGroup('SIGTERM') },
  { signal: 'SIGINT', to: 'all processes, as by Ctrl-C', send: (running: Running) => running.killGroup('SIGINT') },
])('$signal to $to', ({ send }) => {
  it('drains what npm start started, which then exits with 0', async () => {
    const ended = await stopped(send, ['start', '--silent'], { command: ['npm'], cwd: ROOT, leadsGroup: true });
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/\nStopping\.\nStopped\.\n$/) });
  });

  it('drains what npx started, although the shell between them ends first', async () => {
    const ended = await stopped(send, ['millrace', 'work', 'handlers.js'], { command: ['npx'], cwd: project(), leadsGroup: true });
    expect(ended.stdout).toMatch(/\nSIG(?:TERM|INT): draining.*\nStopped\.\n$/);
  });
});

it('a terminal that closes drains the program', async () => {
  const hangUp = (running: Running) => running.killGroup('SIGHUP');
  const direct = await stopped(hangUp, ['up'], { leadsGroup: true });
  expect(direct).toMatchObject({ code: 0, stdout: expect.stringMatching(/\nStopping\.\nStopped\.\n$/) });
  // npm does not wait for what it started.
  const byNpm = await stopped(hangUp, ['start', '--silent'], { command: ['npm'], cwd: ROOT, leadsGroup: true });
  expect(byNpm.stdout).toMatch(/\nStopping\.\nStopped\.\n$/);
});

it('npx exits with the code of the program where its shell is replaced by the program', async () => {
  const cwd = project();
  const shell = join(folderWith({ sh: '#!/bin/sh\neval "exec $2"\n' }), 'sh');
  chmodSync(shell, 0o755);
  const surroundings: Surroundings = { command: ['npx'], cwd, env: { npm_config_script_shell: shell }, database: ledger.db.url };
  const worker = await started(['millrace', 'work', 'handlers.js'], surroundings);
  worker.kill('SIGTERM');
  expect(await worker.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/\nSIGTERM: draining.*\nStopped\.\n$/) });
});

it('the command of the documented container drains and exits with 0', async () => {
  const guide = readFileSync(join(ROOT, 'docs/operations/deployment.md'), 'utf8');
  const [, command] = /^CMD (\[.*\])$/m.exec(guide)!;
  const env = { MILLRACE_AUTH_ALLOW_OPEN: 'true', MILLRACE_INGEST_AUTH: 'key', MILLRACE_SERVER_PORT: '0' };
  const serve = await started([], { command: JSON.parse(command!), cwd: project(), env, database: ledger.db.url });
  serve.kill('SIGTERM');
  expect(await serve.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/\nStopping\.\nStopped\.\n$/) });
});

it('a program whose output nobody reads any more still stops its database and exits with 0', async () => {
  const unread = (running: Running) => {
    running.stopReading();
    running.kill('SIGTERM');
  };
  expect(await stopped(unread, ['up'], {})).toMatchObject({ code: 0 });
});
