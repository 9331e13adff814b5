/** Jobs that fail without an attempt, as the log of a real process shows them. */
import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { keyOf, logged, post, startUp, startWork } from './observed-process.ts';
import { ask } from './program.ts';

const ledger = useLedger();

const HOUR_MS = 3_600_000;
/** No worker serves it. */
const type = 'unserved';
const NOT_RUN = { job_type: type, level: 'error' };

const FAMILY = `export const handlers = {
  parent: (context) => context.spawn({ type: 'child', payload: {}, maxAttempts: 1 }, { join: true }),
  child: () => { throw new Error('there is none'); },
};`;

describe('the log of a job that fails without an attempt', () => {
  it('has one line if its lifetime ends while it waits, in one of the processes [FR-16.31] [AB-obs.03]', async () => {
    const policy = { lifetimeMs: 1 };
    const job = await ledger.putJob('delayed', { type, policy, job: { correlationId: 'order-7' } });
    await ledger.moveClock(1_000);
    const dependent = await ledger.submitOne({ type, orgId: job.orgId, dependsOn: [job] });
    const processes = [(await startUp(ledger)).program, (await startWork(ledger)).program];
    const lines = () => processes.flatMap(({ logs }) => logs).filter((line) => line.job_id === job.id);
    const ofDependent = await Promise.any(processes.map((program) => logged(program, { job_id: dependent.id })));
    // The process that failed the job may write its line after the other one has written that of the dependent.
    await until('a process has logged the job', () => lines().length > 0);
    expect(lines()).toMatchObject([
      {
        ...{ message: 'job.dead_lettered', ...NOT_RUN, org_id: job.orgId, correlation_id: 'order-7', attempt: 0 },
        ...{ current_state: 'delayed', next_state: 'dead_letter', reason: 'lifetime_exceeded', error_code: 'LIFETIME_EXCEEDED' },
        error_class: 'timeout',
      },
    ]);
    expect(ofDependent).toMatchObject({
      ...{ message: 'job.dead_lettered', ...NOT_RUN, current_state: 'pending', next_state: 'dead_letter' },
      ...{ reason: 'dependency_dead_letter', error_code: expect.any(String), error_message: expect.any(String) },
    });
  });

  it('has one line if a dependency fails, with the request that submitted it [FR-16.31]', async () => {
    const { program, url } = await startUp(ledger);
    const { orgId, headers } = await keyOf(ledger);
    const failing = { type: 'simulate', payload: { duration_ms: 1, failure: 'PERMANENT' }, delay: 'PT1H' };
    const first = await post(`${url}/queue/v1/jobs`, { headers, body: failing });
    const body = { type: 'simulate', payload: { duration_ms: 1 }, depends_on: [first.job_id] };
    const second = await post(`${url}/queue/v1/jobs`, { headers: { ...headers, 'x-request-id': 'of-the-dependent' }, body });
    await ledger.moveClock(HOUR_MS);
    await logged(program, { message: 'job.failed', job_id: second.job_id });
    expect(program.logs.filter((line) => line.job_id === second.job_id && line.message !== 'request')).toMatchObject([
      {
        ...{ level: 'error', job_type: 'simulate', org_id: orgId, correlation_id: 'of-the-dependent', attempt: 0 },
        ...{ current_state: 'pending', next_state: 'failed', reason: 'dependency_failed', error_class: 'permanent' },
      },
    ]);
  });

  it('has a line if a child fails while its parent waits for it, where a module of a user runs both [FR-16.31]', async () => {
    const { program } = await startWork(ledger, ['family.js'], { 'family.js': FAMILY });
    const { jobId } = await ask<{ jobId: string }>(['jobs', 'submit', 'parent'], { database: ledger.db.url });
    expect(await logged(program, { message: 'job.failed', job_id: jobId })).toMatchObject({
      ...{ level: 'error', job_type: 'parent', current_state: 'running', next_state: 'failed', reason: 'child_failed', attempt: 1 },
    });
    expect(await logged(program, { message: 'job.dead_lettered', job_type: 'child' })).toMatchObject({ error_message: 'there is none' });
  });

  it('has a line if an operation takes back its retry, or a request drops its next attempt [FR-16.31]', async () => {
    const { program, url } = await startUp(ledger);
    const { orgId, headers } = await keyOf(ledger, { scopes: API_KEY_SCOPES });
    const dead = await ledger.putJob('dead_letter', { orgId, type });
    const operations = `${url}/queue/v1/operations`;
    const { operation_id: id } = await post<{ operation_id: string }>(operations, { headers, body: { action: 'replay', filter: {} } });
    await until('the job is ready again', () => ledger.stateOf(dead), 'scheduled');
    await post(`${operations}/${id}/undo`, { headers });
    expect(await logged(program, { message: 'job.dead_lettered', job_id: dead.id })).toMatchObject({
      ...{ ...NOT_RUN, org_id: orgId, current_state: 'scheduled', next_state: 'dead_letter', reason: 'retry_undone' },
    });
    const retrying = await ledger.putJob('retrying', { orgId, type, policy: { cancelsAtOnce: true } });
    const cancelling = { ...headers, 'x-request-id': 'of-the-cancel' };
    await post(`${url}/queue/v1/jobs/${retrying.id}/cancel`, { headers: cancelling });
    expect(await logged(program, { message: 'job.failed', job_id: retrying.id })).toMatchObject({
      ...{ ...NOT_RUN, current_state: 'retrying', next_state: 'failed', reason: 'retry_dropped', request_id: 'of-the-cancel' },
    });
  });
});
