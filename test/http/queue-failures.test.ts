import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PermanentError, TemporaryError } from '../../src/core/failure.ts';
import { Gate } from '../library/fixture.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();
const ALL = { include_all_attempts: 'true' };
const later = { backoff: { initial_delay: 'PT1H' } };

const refuse = () => {
  throw Object.assign(new PermanentError('no such address', { code: 'NO_ADDRESS' }), {
    context: { to: 'ada', token: 'x' },
  });
};
const stumble = () => {
  throw new TemporaryError('try again', { code: 'BUSY' });
};

describe('the failure of a job', () => {
  it('names job, type, final state and attempts [GA-4.01] [GA-4.03..06]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(stumble, { max_attempts: 2 });
    await caller.reached(jobId, 'DEAD_LETTER');
    const { status, body } = await caller.get(`/jobs/${jobId}/failure`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ job_id: jobId, type: 'act', final_state: 'DEAD_LETTER', total_attempts: 2 });
    const failed = await caller.act(refuse);
    await caller.reached(failed, 'FAILED');
    expect((await caller.get(`/jobs/${failed}/failure`)).body).toMatchObject({
      final_state: 'FAILED',
      total_attempts: 1,
    });
  });

  it('tells what happened, when, where and in which attempt [GA-4.07] [GA-4.09..18]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(refuse);
    const job = await caller.reached(jobId, 'FAILED');
    const { failure } = (await caller.get(`/jobs/${jobId}/failure`)).body;
    expect(failure).toMatchObject({
      attempt: 1,
      category: 'PERMANENT',
      code: 'NO_ADDRESS',
      message: 'no such address',
    });
    expect(failure.timestamp).toBe(job.completed_at);
    expect(failure.duration_ms).toBe(Date.parse(job.completed_at) - Date.parse(job.started_at));
    expect(failure.stack_trace).toContain('queue-failures.test.ts');
    expect(failure.context).toEqual({ to: 'ada', token: expect.not.stringContaining('x') });
    expect(failure.worker_id).toEqual(expect.stringMatching(/./));
    expect(failure.host).toEqual(expect.stringMatching(/./));
  });

  it('has every attempt when asked for [GA-4.02] [GA-4.08] [GA-4.19..23]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(stumble, { max_attempts: 3 });
    await caller.reached(jobId, 'DEAD_LETTER');
    expect((await caller.get(`/jobs/${jobId}/failure`)).body).not.toHaveProperty('attempts');
    const { attempts } = (await caller.get(`/jobs/${jobId}/failure`, ALL)).body;
    expect(attempts.map(({ attempt }: { attempt: number }) => attempt)).toEqual([1, 2, 3]);
    for (const attempt of attempts) {
      expect(attempt.result).toBe('FAILURE');
      expect(attempt.finished_at >= attempt.started_at).toBe(true);
      expect(attempt.failure).toMatchObject({ attempt: attempt.attempt, category: 'TEMPORARY', code: 'BUSY' });
      expect(attempt.failure.timestamp).toBe(attempt.finished_at);
    }
  });

  it('distinguishes attempts that timed out from attempts that failed [GA-4.12] [GA-4.22]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(() => new Promise<never>(() => {}), { timeout: 1, max_attempts: 1 });
    await caller.reached(jobId, 'DEAD_LETTER');
    const { attempts, failure } = (await caller.get(`/jobs/${jobId}/failure`, ALL)).body;
    expect(attempts.map(({ result }: { result: string }) => result)).toEqual(['TIMEOUT']);
    expect(failure.category).toBe('TIMEOUT');
  });

  it('shows an attempt that was cancelled as such, its failure as the system’s [GA-4.12] [GA-4.22]', async () => {
    const caller = await queue.caller();
    const job = await queue.ledger.putJob('failed', { orgId: caller.orgId });
    await queue.ledger.db.api.query(
      `UPDATE millrace.records SET details = ARRAY['{"category":"CANCELLED","code":"CANCELLED","message":"stop"}'::json]
       WHERE org_id = $1 AND seqs = ARRAY[$2::int8] AND to_state = 'failed'`,
      [job.orgId, job.seq],
    );
    const { attempts } = (await caller.get(`/jobs/${job.id}/failure`, ALL)).body;
    expect(attempts[0]).toMatchObject({ result: 'CANCELLED', failure: { category: 'SYSTEM', code: 'CANCELLED' } });
  });

  it('of a job that waits for its next attempt has no final state yet [GA-4.05]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(stumble, later);
    await caller.reached(jobId, 'RETRYING');
    expect((await caller.get(`/jobs/${jobId}/failure`)).body).toMatchObject({
      final_state: null,
      failure: { code: 'BUSY' },
    });
  });

  it('is shown while the job runs again, and after that went well [GA-4.05] [GA-4.07]', async () => {
    const caller = await queue.caller();
    const gate = new Gate();
    const jobId = await caller.act(({ attempt }) => (attempt === 1 ? stumble() : gate.pass()), {
      backoff: { initial_delay: 1 },
    });
    await gate.reached();
    const seen = async () => (await caller.get(`/jobs/${jobId}/failure`)).body;
    expect(await seen()).toMatchObject({
      ...{ final_state: null, total_attempts: 2 },
      failure: { code: 'BUSY', attempt: 1, timestamp: expect.any(String) },
    });
    gate.open();
    await caller.reached(jobId, 'COMPLETED');
    expect(await seen()).toMatchObject({ final_state: null, failure: { code: 'BUSY', attempt: 1 } });
  });

  it('is 404 of a job that has not failed, which says so [GA-4.01] [GA-6.14]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit();
    await caller.post(`/jobs/${jobId}/cancel`);
    const { status, body } = await caller.get(`/jobs/${jobId}/failure`);
    expect([status, body.message]).toEqual([404, `Job ${jobId} exists and has not failed.`]);
  });

  it('is 404 where there is none [GA-4.01] [GA-6.14]', async () => {
    const caller = await queue.caller();
    const foreign = await queue.ledger.putJob('failed');
    const fine = await caller.act(() => 1);
    await caller.reached(fine, 'COMPLETED');
    for (const id of [randomUUID(), foreign.id, fine, await caller.submit(), 'nonsense'])
      expect((await caller.get(`/jobs/${id}/failure`)).status).toBe(404);
  });
});
