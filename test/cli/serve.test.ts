import { describe, expect, it } from 'vitest';
import { createKey } from '../../src/services/access/create-key.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { logged } from './observed-process.ts';
import { ask, folderWith, type Running, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

async function startServe(settings = '', env: Record<string, string> = {}): Promise<{ serve: Running; url: string }> {
  const cwd = folderWith({ 'millrace.toml': settings });
  const serve = start(['serve', '--port', '0'], { ...here(), cwd, env });
  const [, url] = await serve.said(/Serving (\S+)\n[\s\S]*Stop with/);
  return { serve, url: url as string };
}

const keyOf = async (): Promise<{ orgId: string; headers: Record<string, string> }> => {
  const orgId = await ledger.newOrg();
  const { key } = await createKey(ledger.db, { orgId });
  return { orgId, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } };
};

const submit = (url: string, headers: Record<string, string>, submission: object) =>
  fetch(`${url}/queue/v1/jobs`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ type: 'echo', payload: {}, ...submission }),
  });

describe('serve', () => {
  it('answers the API and leaves the jobs to workers of other processes', async () => {
    const { serve, url } = await startServe();
    const { headers } = await keyOf();
    const readiness = async (query = '') => {
      const answer = await fetch(`${url}/readyz${query}`);
      return { status: answer.status, workers: ((await answer.json()) as { workers: number | null }).workers };
    };
    // A database that is slow for a second is reported as unreachable.
    await until('the server is ready without a worker', readiness, { status: 200, workers: 0 });
    expect(await logged(serve, { message: 'workers.missing' })).toMatchObject({
      level: 'warn',
      reason: 'No worker is alive. Jobs are accepted, but wait for a worker. Start one with "millrace work".',
    });
    const accepted = await submit(url, headers, {});
    expect(accepted.status).toBe(202);
    const { job_id } = (await accepted.json()) as { job_id: string };
    const cwd = folderWith({ 'echo.js': 'export const handlers = { echo: (_context, payload) => payload };' });
    const worker = start(['work', 'echo.js', '--verbose'], { ...here(), cwd });
    await worker.said(new RegExp(`completed echo ${job_id}`));
    await until('the server is ready with the worker', () => readiness('?workers=required'), { status: 200, workers: 1 });
    await logged(serve, { message: 'workers.back', workers: 1 });
    serve.kill('SIGTERM');
    expect(await serve.ended).toMatchObject({ code: 0, stderr: '' });
    expect(serve.stdout).toMatch(/Stopping\.\nStopped\.\n$/);
  });

  it('logs trouble as text with a time where the settings say so [AB-obs.01]', async () => {
    const serve = start(['serve', '--port', '0'], { ...here(), env: { MILLRACE_TELEMETRY_LOG_FORMAT: 'text' } });
    await serve.complained(/^\d\d:\d\d:\d\d\.\d{3} warn {2}workers\.missing error_code=\w+ reason="No worker is alive\./m);
  });

  it('refuses an address that others reach while everyone may register, unless the operator allows it', async () => {
    for (const command of ['serve', 'up']) {
      for (const host of ['0.0.0.0', '::', '192.0.2.7', 'example.com', '0']) {
        const refused = await run([command, '--host', host, '--port', '0'], here());
        expect(refused.code).not.toBe(0);
        expect(refused.stderr).toContain(`would listen on ${host}`);
        expect(refused.stderr).toMatch(/auth\.registration = "token"[\s\S]*auth\.allow_open = true/);
      }
    }
    const open = { MILLRACE_AUTH_ALLOW_OPEN: 'true', MILLRACE_INGEST_ALLOW_OPEN: 'true' };
    const registration = { MILLRACE_AUTH_REGISTRATION: 'token', MILLRACE_AUTH_BOOTSTRAP_TOKEN: 'a token of sufficient length' };
    const token = { ...registration, MILLRACE_INGEST_AUTH: 'key' };
    for (const env of [open, token]) {
      const serve = start(['serve', '--host', '0.0.0.0', '--port', '0'], { ...here(), env });
      await serve.said(/Serving \S+\n[\s\S]*Stop with/);
      serve.kill('SIGTERM');
      expect(await serve.ended).toMatchObject({ code: 0, stderr: '' });
    }
  });

  it('has its /v1 and simulated jobs run by a worker that names no module', async () => {
    const { url } = await startServe();
    const { headers } = await keyOf();
    const post = async (path: string, body: object): Promise<{ job_id: string }> => {
      const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
      return (await answer.json()) as { job_id: string };
    };
    const execution = await post('/v1/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' });
    const simulated = await post('/queue/v1/jobs', { type: 'simulate', payload: { duration_ms: 1 } });
    const cwd = folderWith({ 'millrace.toml': '[simulation]\ntime_scale = 0.01' });
    const worker = start(['work', '--verbose', '--name', 'built-in'], { ...here(), cwd });
    await worker.said(/Serving simulate, \S+, \S+\n {2}from all queues, 1 at the same time/);
    for (const { job_id } of [execution, simulated]) await worker.said(new RegExp(`completed \\S+ ${job_id}`));
    const report = await fetch(`${url}/v1/jobs/${execution.job_id}/report`, { headers });
    expect(await report.json()).toMatchObject({ outcome: 'SUCCESS' });
    worker.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('puts its settings into effect: limits, policy, queues and pools', async () => {
    const { url } = await startServe(`
      [limits]
      requests_per_minute = 7
      payload_size = "1KB"
      body_size = "4KB"
      [queue]
      max_attempts = 9
      [queues."q:configured"]
      order = "fair"
      paused = true
      [database]
      api_pool = 3
    `);
    const { headers } = await keyOf();
    const accepted = await submit(url, headers, {});
    expect(accepted.headers.get('ratelimit-policy')).toContain('q=7;');
    const { job_id } = (await accepted.json()) as { job_id: string };
    const job = await fetch(`${url}/queue/v1/jobs/${job_id}`, { headers });
    expect(await job.json()).toMatchObject({ max_attempts: 9 });
    const large = await submit(url, headers, { payload: { a: 'x'.repeat(2_000) } });
    expect({ status: large.status, text: await large.text() }).toMatchObject({
      status: 400,
      text: expect.stringContaining('1024 bytes'),
    });
    const larger = await submit(url, headers, { payload: { a: 'x'.repeat(5_000) } });
    expect({ status: larger.status, text: await larger.text() }).toMatchObject({
      status: 400,
      text: expect.stringContaining('4096 bytes'),
    });
    const { rows } = await ledger.db.api.query(`SELECT claim_order, paused_at FROM millrace.queues WHERE name = 'q:configured'`);
    expect(rows).toEqual([{ claim_order: 'fair', paused_at: expect.any(Date) }]);
  });

  it('refuses a database whose schema it does not know', async () => {
    const other = new URL(ledger.db.url);
    other.pathname = '/postgres';
    const { code, stderr } = await run(['serve', '--port', '0', '--database', other.href]);
    expect(code).toBe(1);
    expect(stderr).toContain('millrace migrate');
  });
});

describe('work', () => {
  it('takes its concurrency, queues, grace and policy from the settings unless the command line says otherwise', async () => {
    const cwd = folderWith({
      'echo.js': 'export const handlers = { echo: (_context, payload) => payload };',
      'millrace.toml':
        '[workers]\nconcurrency = 3\nqueues = ["q:a", "q:b"]\ndrain_grace = "7s"\n[queues."q:a"]\norder = "fair"\n[queue]\nmax_attempts = 8',
    });
    const worker = start(['work', 'echo.js', '--json'], { ...here(), cwd });
    const [line] = await worker.said(/.+\n/);
    expect(JSON.parse(line as string)).toMatchObject({ event: 'serving', concurrency: 3, queues: ['q:a', 'q:b'] });
    const { rows } = await ledger.db.api.query(`SELECT claim_order FROM millrace.queues WHERE name = 'q:a'`);
    expect(rows).toEqual([{ claim_order: 'fair' }]);
    const { jobId } = await ask<{ jobId: string }>(['jobs', 'submit', 'echo', '--queue', 'q:a'], { ...here(), cwd });
    expect(await ask(['jobs', 'get', jobId], { ...here(), cwd })).toMatchObject({ maxAttempts: 8 });
    worker.kill('SIGTERM');
    await worker.said(/"event":"draining","signal":"SIGTERM","grace":"7s"/);
    expect(await worker.ended).toMatchObject({ code: 0 });
    const other = start(['work', 'echo.js', '--json', '--concurrency', '5'], { ...here(), cwd });
    expect(JSON.parse((await other.said(/.+\n/))[0])).toMatchObject({ concurrency: 5 });
  });
});

type Printed = { file: string | null; settings: { name: string; value: unknown; written: string; source: string }[] };

describe('config print', () => {
  const files = {
    'millrace.toml': '[server]\nport = 9000\n[queues."q:a"]\norder = "fair"',
    'other.toml': '[server]\nport = 9001',
  };

  it('shows every value and where it came from, secrets masked', async () => {
    const cwd = folderWith(files);
    const env = { MILLRACE_LIMITS_REQUESTS_PER_MINUTE: '20', DATABASE_URL: 'postgres://ada:lovelace@db/x' };
    const { file, settings } = await ask<Printed>(['config', 'print'], { cwd, env });
    expect(file).toMatch(/millrace\.toml$/);
    const of = (name: string) => settings.find((each) => each.name === name);
    expect(of('server.port')).toMatchObject({ value: 9_000, source: file });
    expect(of('server.request_timeout')).toMatchObject({ value: 15_000, written: '"15s"', source: 'default' });
    expect(of('limits.requests_per_minute')).toMatchObject({
      value: 20,
      source: 'MILLRACE_LIMITS_REQUESTS_PER_MINUTE',
    });
    expect(of('database.url')).toMatchObject({ value: 'postgres://ada:***@db/x', source: 'DATABASE_URL' });
    expect(of('queues."q:a".order')).toMatchObject({ value: 'fair', source: file });
    const people = await run(['config', 'print', '--config', 'other.toml'], { cwd, env });
    expect(people.stdout).toMatch(/^server\.port +9001 +\S+other\.toml$/m);
    expect(people.stdout).toMatch(/^limits\.payload_size +"1MB" +default$/m);
    expect(people.stdout).not.toContain('lovelace');
  });
});
