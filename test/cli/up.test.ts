import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { folderWith, type Running, run, start } from './program.ts';

const ledger = useLedger();
const shell = promisify(execFile);
const CLONE = fileURLToPath(new URL('../../', import.meta.url));
const FREE_PORT = ['--port', '0'];

/** Left for the program to make, as a user's first start would. */
function freshHome(): string {
  const home = join(tmpdir(), `cli-home-${randomBytes(6).toString('hex')}`);
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  return home;
}

async function startUp(args: readonly string[], surroundings: Parameters<typeof start>[1] = {}): Promise<Running> {
  const up = start(['up', ...FREE_PORT, ...args], surroundings);
  await up.said(/Stop with Ctrl-C.*\n/);
  return up;
}

/** The lines that the program says to type, typed in a clone. Returns what each printed. */
async function followAdvice(stdout: string): Promise<string[]> {
  const advice = stdout.split('In another terminal')[1]?.match(/^ {2}npx .+$/gm) ?? [];
  const { DATABASE_URL: _url, MILLRACE_HOME: _home, ...inherited } = process.env;
  const env = { ...inherited, npm_config_offline: 'true', npm_config_update_notifier: 'false' };
  const printed: string[] = [];
  for (const line of advice) printed.push((await shell('sh', ['-c', line], { cwd: CLONE, env })).stdout);
  return printed;
}

const fact = (up: Running, name: string): string => up.stdout.match(new RegExp(`^  ${name} +(.+)$`, 'm'))?.[1] as string;

describe('up', () => {
  it('on an empty home makes a database, an org and a key, and prints lines that work as they stand', async () => {
    const home = freshHome();
    const up = await startUp(['--home', home], { database: 'postgres://127.0.0.1:1/nobody-listens' });
    expect(up.stdout).toMatch(/^Millrace is up\.$/m);
    expect(fact(up, 'data')).toBe(home);
    const socketFolder = (await readFile(join(home, 'postgres-host'), 'utf8')).trim();
    expect(fact(up, 'database')).toBe(`PostgreSQL 18, embedded, socket in ${socketFolder}`);
    expect(fact(up, 'org')).toBe('default');
    const file = join(home, 'api-key');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(fact(up, 'API key')).toBe((await readFile(file, 'utf8')).trim());
    const [completed, failsFirst] = await followAdvice(up.stdout);
    expect(completed).toMatch(/^state +completed$/m);
    expect(failsFirst).toMatch(/^state +completed\n(?:.*\n)*attempt +2 of 3$/m);
    await up.said(/^completed simulate \S+, attempt 1$/m);
    await up.said(/^failed simulate \S+, attempt 1: SIMULATED_TEMPORARY .*; the job is retried in \d\.\d s$/m);
    await up.said(/^completed simulate \S+, attempt 2$/m);
    const readiness = async () => {
      const answer = await fetch(`${fact(up, 'address')}/readyz`);
      return { status: answer.status, workers: ((await answer.json()) as { workers: number | null }).workers };
    };
    // A database that is slow for a second is reported as unreachable.
    await until('it is ready with its three workers', readiness, { status: 200, workers: 3 });
    up.kill('SIGINT');
    expect(await up.ended).toMatchObject({ code: 0, stderr: '' });
    expect(up.stdout).toMatch(/Stopping\.\nStopped\.\n$/);

    const again = await startUp(['--home', home]);
    expect(again.stdout).not.toMatch(/mr_\w/);
    expect(fact(again, 'API key')).toBe(`in ${file}`);
    again.kill('SIGTERM');
    expect(await again.ended).toMatchObject({ code: 0 });
  });

  it('uses the server it is given, tells programs in JSON, and moves on what waits there', async () => {
    const job = await ledger.putJob('delayed', { orgId: DEFAULT_ORG_ID, job: { runAfterMs: 1 } });
    const up = start(['up', '--json', ...FREE_PORT], { database: ledger.db.url });
    const [line] = await up.said(/.+\n/);
    const told = JSON.parse(line as string);
    expect(told).toMatchObject({
      ...{ event: 'up', home: null, keyFile: null, org: 'default', key: expect.stringMatching(/^mr_/) },
      ...{ url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/), database: expect.stringContaining('postgres') },
    });
    await until('the delayed job is scheduled', () => ledger.stateOf(job), 'scheduled');
    const headers = { authorization: `Bearer ${told.key}` };
    expect((await fetch(`${told.url}/queue/v1/jobs`, { headers })).status).toBe(200);
    up.kill('SIGTERM');
    expect(await up.ended).toMatchObject({ code: 0 });
  });

  it('lets a running job finish when it is told to stop, and ends at once when told twice', async () => {
    const settings = { 'millrace.toml': '[workers]\ndrain_grace = "20s"\n[limits]\nrequests_per_minute = 7' };
    const cwd = folderWith(settings);
    const up = await startUp(['--verbose'], { database: ledger.db.url, cwd });
    const { stdout } = await run(['jobs', 'submit', 'simulate', '{"duration_ms":1500}', '--json'], {
      database: ledger.db.url,
    });
    const { jobId } = JSON.parse(stdout);
    await up.said(new RegExp(`started simulate ${jobId}`));
    up.kill('SIGTERM');
    await up.said(new RegExp(`completed simulate ${jobId}`));
    expect(await up.ended).toMatchObject({ code: 0 });

    const stubborn = await startUp(['--verbose'], { database: ledger.db.url, cwd });
    await run(['jobs', 'submit', 'simulate', '{"duration_ms":600000}'], { database: ledger.db.url });
    await stubborn.said(/started simulate/);
    stubborn.kill('SIGTERM');
    await stubborn.said(/Stopping/);
    stubborn.kill('SIGTERM');
    expect(await stubborn.ended).toMatchObject({ code: 130 });
  });

  it('says so when its port is taken, and leaves no database running', async () => {
    const up = await startUp([], { database: ledger.db.url });
    const port = new URL(fact(up, 'address')).port;
    const home = freshHome();
    const second = await run(['up', '--home', home, '--port', port]);
    expect(second.code).toBe(1);
    expect(existsSync(join(home, 'postgres', 'PG_VERSION'))).toBe(true);
    expect(existsSync(join(home, 'postgres', 'postmaster.pid'))).toBe(false);
    expect(second.stderr).toContain(`Port ${port} of 127.0.0.1 is in use. Choose another with --port N`);
  });

  it('says that clients need a token where registration asks for one', async () => {
    const env = { MILLRACE_AUTH_REGISTRATION: 'token', MILLRACE_AUTH_BOOTSTRAP_TOKEN: 'a-token-for-this-test-only' };
    const up = await startUp([], { database: ledger.db.url, env });
    expect(up.stdout).toContain(`The execution API is at ${fact(up, 'address')}/v1; its clients register with the token`);
    expect(up.stdout).not.toContain('a-token-for-this-test-only');
  });

  it('refuses settings that it does not know before it starts anything', async () => {
    const cwd = folderWith({ 'millrace.toml': '[server]\nprot = 1' });
    const { code, stderr } = await run(['up'], { cwd });
    expect(code).toBe(1);
    expect(stderr).toContain('server.prot is not known (did you mean port?)');
  });
});
