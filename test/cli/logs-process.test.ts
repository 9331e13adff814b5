/** Log lines as a real process writes them, and secrets that must not be in them. */
import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { keyOf, logged, post, scrape, startUp, startWork } from './observed-process.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();

describe('the log of a process', () => {
  it('has a line for each transition of a job of /v1, for requests of every API, for failures and for refused keys [FR-16.01] [FR-16.02] [FR-16.03] [FR-16.04] [FR-16.05] [FR-16.06] [FR-16.30] [FR-16.31] [FR-16.33] [AB-obs.01] [AB-obs.02] [AB-obs.03] [AB-obs.04] [AB-obs.05] [AB-obs.06] [AB-obs.07]', async () => {
    const { program, url } = await startUp(ledger);
    const { orgId, headers } = await keyOf(ledger);
    const call = { ...headers, 'x-request-id': 'request-of-the-test' };
    const { job_id } = await post(`${url}/v1/jobs`, { headers: call, body: { type: 'EXECUTE', work_kind: 'FAIL_IMMEDIATE' } });
    const failed = await logged(program, { message: 'job.failed', job_id });
    expect(failed).toMatchObject({ level: 'warn', client_id: orgId, org_id: orgId, current_state: 'RUNNING', next_state: 'FAILED' });
    expect(failed).toMatchObject({ job_type: 'forgerun.simulated', reason: 'failure', scenario: 'FAIL_IMMEDIATE', attempt: 1 });
    expect([typeof failed.error_code, typeof failed.error_message]).toEqual(['string', 'string']);
    const steps = () =>
      program.logs.filter((line) => line.job_id === job_id && line.next_state !== undefined).map((line) => line.next_state);
    await until('each step has a line', () => steps().toSorted(), ['ASSIGNED', 'CREATED', 'FAILED', 'QUEUED', 'RUNNING']);
    expect(await logged(program, { message: 'job.created', job_id })).toMatchObject({
      request_id: 'request-of-the-test',
      action: 'submit',
    });
    expect(await logged(program, { message: 'request', request_id: 'request-of-the-test' })).toMatchObject({
      ...{ level: 'info', action: 'submit', client_id: orgId, job_id, status: 202, method: 'POST', route: '/v1/jobs' },
      duration_ms: expect.any(Number),
    });
    const project_id = await newProject(ledger.db, orgId);
    const body = { type: 'simulate', payload: { duration_ms: 1, failure: 'PERMANENT' }, correlation_id: 'order-7', project_id };
    const other = await post(`${url}/queue/v1/jobs`, { headers, body });
    expect(await logged(program, { message: 'job.failed', job_id: other.job_id })).toMatchObject({
      ...{ level: 'error', job_type: 'simulate', org_id: orgId, correlation_id: 'order-7', project_id },
      ...{ current_state: 'running', next_state: 'failed', error_class: 'permanent' },
    });
    expect(await logged(program, { message: 'request', route: '/queue/v1/jobs' })).not.toHaveProperty('client_id');
    await fetch(`${url}/v1/jobs/${job_id}`, { headers: { authorization: `Bearer mr_${'x'.repeat(40)}`, 'x-request-id': 'refused' } });
    expect(await logged(program, { message: 'auth failed', request_id: 'refused' })).toMatchObject({ level: 'warn', action: 'get' });
    for (const line of program.logs) expect(new Date(String(line.time)).toISOString()).toBe(line.time);
    expect(program.stderr).toBe('');
  });

  it('has no line below its level, and its settings apply', async () => {
    const { program, url } = await startUp(ledger, { settings: '[telemetry]\nlog_level = "error"\n' });
    const { headers } = await keyOf(ledger);
    const { job_id } = await post(`${url}/queue/v1/jobs`, {
      headers,
      body: { type: 'simulate', payload: { duration_ms: 1, failure: 'PERMANENT' } },
    });
    await logged(program, { message: 'job.failed', job_id });
    expect([...new Set(program.logs.map(({ level }) => level))]).toEqual(['error']);
  });

  it('names no secret and no payload, and neither do metrics and exports [AB-obs.08] [AB-obs.09] [N53]', async () => {
    const secret = 'hunter2-PLANTED-9f3c';
    const env = { MILLRACE_AUTH_BOOTSTRAP_TOKEN: `token-${secret}-token` };
    const { program, url: api } = await startUp(ledger, { settings: '[telemetry]\nlog_level = "debug"\n', env });
    const { headers } = await keyOf(ledger);
    const body = {
      type: 'simulate',
      payload: { failure: 'PERMANENT', duration_ms: 1 },
      tags: { note: `password=${secret}` },
      callback_url: `https://user:${secret}@192.0.2.1/hook?token=${secret}`,
    };
    const asked = { ...headers, cookie: `session_id=${secret}` };
    await fetch(`${api}/queue/v1/jobs?api_key=${secret}`, { method: 'POST', headers: asked, body: JSON.stringify(body) });
    const { callback_url: _callback, ...plain } = body;
    const told = { ...plain, payload: { ...plain.payload, password: secret } };
    await fetch(`${api}/queue/v1/jobs`, { method: 'POST', headers: asked, body: JSON.stringify(told) });
    const { job_id } = await post(`${api}/queue/v1/jobs`, { headers: asked, body: plain });
    await logged(program, { message: 'job.failed', job_id });
    await fetch(`${api}/queue/v1/jobs`, { headers: { authorization: `Bearer ${secret}` } });
    await fetch(`${api}/v1/jobs`, { method: 'POST', headers, body: JSON.stringify({ type: 'EXECUTE', password: secret }) });
    await fetch(`${api}/nowhere?token=${secret}`);
    await logged(program, { message: 'request', route: 'none' });
    const { text } = await scrape(api);
    const exported = await run(['export', '--all-orgs'], { database: ledger.db.url });
    const shown = await run(['config', 'print'], {
      database: ledger.db.url,
      env: { MILLRACE_AUTH_BOOTSTRAP_TOKEN: `token-${secret}-token` },
    });
    for (const [where, output] of Object.entries({ errors: program.errors, text, exported: exported.stdout, shown: shown.stdout })) {
      expect([where, output.includes(secret)]).toEqual([where, false]);
    }
    expect(program.errors).not.toContain('duration_ms":1,"failure');
  });

  it('masks the signature of a link in the error of a handler [AB-obs.08]', async () => {
    const link = 'https://files.example/a.pdf?expires=9&sig=PLANTED-9f3c';
    const module = `export const handlers = { read: { maxAttempts: 1, handler: () => { throw new Error('GET ${link} failed'); } } };`;
    const { program } = await startWork(ledger, ['read.js'], { 'read.js': module });
    const { jobId } = await ask<{ jobId: string }>(['jobs', 'submit', 'read'], { database: ledger.db.url });
    const line = await logged(program, { message: 'job.dead_lettered', job_id: jobId });
    expect(line.error_message).toContain('?expires=9&sig=[masked]');
    expect(program.errors + program.stdout).not.toContain('PLANTED');
  });

  it('is bounded: a flood of lines is dropped and counted', async () => {
    const { program, url } = await startUp(ledger, { settings: '[telemetry]\nlog_limit = 5\n' });
    await Promise.all(Array.from({ length: 60 }, () => fetch(`${url}/v1/jobs`).then((response) => response.text())));
    const dropped = await logged(program, { message: 'log.dropped', kind: 'request' });
    expect(dropped).toMatchObject({ level: 'warn', dropped: expect.any(Number) });
    await until(
      'every request is logged or counted as dropped',
      () => {
        const requests = program.logs.filter(({ message }) => message === 'request').length;
        const rest = program.logs.filter(({ kind }) => kind === 'request').reduce((sum, line) => sum + Number(line.dropped), 0);
        return requests + rest;
      },
      60,
    );
  });
});

describe('millrace logs', () => {
  it('follows one job to its end', async () => {
    const { url } = await startUp(ledger);
    const { orgId, headers } = await keyOf(ledger);
    const { job_id } = await post(`${url}/queue/v1/jobs`, { headers, body: { type: 'simulate', payload: { duration_ms: 1 } } });
    const { code, stdout } = await run(['logs', job_id, '--org', orgId], { database: ledger.db.url });
    expect(code).toBe(0);
    expect(stdout).toMatch(/scheduled[\s\S]*running[\s\S]*completed/);
  });
});
