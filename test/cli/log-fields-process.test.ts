/** The fields of log lines about jobs, as real processes write them. */
import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { keyOf, logged, post, startUp, startWork } from './observed-process.ts';

const ledger = useLedger();

const HOUR = 3_600_000;
/** A handler that never ends, so that only the death of its process ends the attempt. */
const STUCK = `export const handlers = { stuck: () => new Promise(() => {}) };`;

describe('log lines about jobs', () => {
  it('have the same fields for each change of a job of /v1, whoever asked for it [FR-16.03] [FR-16.05] [AB-obs.03] [AB-obs.05] [AB-obs.06]', async () => {
    const { program, url } = await startUp(ledger);
    const { orgId, headers } = await keyOf(ledger);
    const call = { ...headers, 'x-request-id': 'of-the-submission' };
    const job = { type: 'EXECUTE', work_kind: 'FAIL_IMMEDIATE' };
    const { job_id } = await post(`${url}/v1/jobs`, { headers: call, body: job });
    await logged(program, { message: 'job.failed', job_id });
    await post(`${url}/v1/jobs/${job_id}/retry`, { headers: { ...headers, 'x-request-id': 'of-the-retry' } });
    const execution_at = new Date(Date.now() + HOUR).toISOString();
    const later = await post(`${url}/v1/jobs`, { headers: call, body: { ...job, type: 'DEFERRED', execution_at } });
    await post(`${url}/v1/jobs/${later.job_id}/cancel`, { headers: { ...headers, 'x-request-id': 'of-the-cancel' } });
    const common = { job_type: 'forgerun.simulated', org_id: orgId, client_id: orgId, correlation_id: 'of-the-submission', level: 'info' };
    for (const message of ['job.created', 'job.queued', 'job.assigned', 'job.running'])
      expect(await logged(program, { message, job_id })).toMatchObject(common);
    expect(await logged(program, { message: 'job.retried', job_id })).toMatchObject({
      ...{ ...common, request_id: 'of-the-retry', action: 'retry', reason: 'manual', scenario: 'FAIL_IMMEDIATE' },
      ...{ current_state: 'FAILED', next_state: 'QUEUED' },
    });
    expect(await logged(program, { message: 'job.canceled', job_id: later.job_id })).toMatchObject({
      ...{ ...common, request_id: 'of-the-cancel', action: 'cancel', scenario: 'FAIL_IMMEDIATE' },
      ...{ current_state: 'CREATED', next_state: 'CANCELED' },
    });
  });

  it('name the correlation id and the project of a job whose worker died [FR-16.31] [AB-obs.03] [AB-obs.07]', async () => {
    const { program, url } = await startUp(ledger);
    const { program: worker } = await startWork(ledger, ['stuck.js', '--verbose'], { 'stuck.js': STUCK });
    const { orgId, headers } = await keyOf(ledger);
    const project_id = await newProject(ledger.db, orgId);
    const body = { type: 'stuck', payload: {}, max_attempts: 1, correlation_id: 'order-7', project_id };
    const { job_id } = await post(`${url}/queue/v1/jobs`, { headers, body });
    await worker.said(new RegExp(`started stuck ${job_id}`));
    await worker.end();
    expect(await logged(program, { error_code: 'WORKER_LOST', job_id })).toMatchObject({
      ...{ message: 'job.dead_lettered', job_type: 'stuck', org_id: orgId, project_id, correlation_id: 'order-7', attempt: 1 },
    });
  });

  it('name the job and the org of a request that submits one, at every door [FR-16.03] [AB-obs.04] [AB-obs.06]', async () => {
    const { program, url } = await startUp(ledger);
    const { orgId, headers } = await keyOf(ledger);
    const body = { type: 'simulate', payload: { duration_ms: 1 }, idempotency_key: 'k' };
    const { job_id } = await post(`${url}/queue/v1/jobs`, { headers, body });
    await post(`${url}/queue/v1/jobs`, { headers, body });
    const lines = () => program.logs.filter((line) => line.route === '/queue/v1/jobs' && line.job_id === job_id);
    await until('both requests have a line', () => lines().length, 2);
    expect(lines()).toMatchObject([
      { status: 202, org_id: orgId },
      { status: 200, org_id: orgId },
    ]);
    const manifest = { manifest_version: 'v1', metadata: {}, resources: [{ id: 'a', url: 'http://192.0.2.1/a' }] };
    const tenant = { 'content-type': 'application/json', 'x-fetchbox-job-type': 'default', 'x-fetchbox-tenant': 'acme' };
    const ingested = await post(`${url}/jobs`, { headers: tenant, body: manifest });
    const line = await logged(program, { message: 'request', route: '/jobs' });
    const { rows } = await ledger.db.api.query(`SELECT id FROM millrace.orgs WHERE slug = 'acme'`);
    expect(line).toMatchObject({ job_id: ingested.job_id, org_id: rows[0].id, status: 202 });
  });
});
