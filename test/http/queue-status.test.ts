import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PermanentError, PostponeError } from '../../src/core/failure.ts';
import type { Submission } from '../../src/core/submission.ts';
import { Gate, untilAborted } from '../library/fixture.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();
const all = { include_result: 'true', include_history: 'true' };

describe('a job', () => {
  it('is read by its id with everything known of it [GA-2.01] [GA-2.04..12] [GA-2.16..18]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit({ type: 'mail', priority: 'HIGH', tags: { a: 'b' }, correlation_id: 'c' });
    const { status, body } = await caller.get(`/jobs/${jobId}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ job_id: jobId, type: 'mail', state: 'SCHEDULED', attempt: 1 });
    expect(body).toMatchObject({ priority: 'HIGH', tags: { a: 'b' }, correlation_id: 'c' });
    expect(body).toMatchObject({ started_at: null, completed_at: null, scheduled_for: body.created_at });
    expect(body.updated_at >= body.created_at).toBe(true);
  });

  it('that has ended has its times in order, and counts its attempts [GA-2.07..12]', async () => {
    const caller = await queue.caller();
    let failures = 1;
    const job = await caller.reached(
      await caller.act(() => {
        if (failures-- > 0) throw new Error('once');
        return 'done';
      }),
      'COMPLETED',
    );
    expect(job.attempt).toBe(2);
    const { created_at, scheduled_at, started_at, completed_at, updated_at } = job;
    const times = [created_at, scheduled_at, started_at, completed_at];
    expect(times.toSorted()).toEqual(times);
    expect(updated_at).toBe(completed_at);
  });

  it.each([
    ['pending', 'PENDING', null],
    ['delayed', 'DELAYED', null],
    ['scheduled', 'SCHEDULED', null],
    ['running', 'RUNNING', null],
    ['retrying', 'RETRYING', null],
    ['completed', 'COMPLETED', 'SUCCESS'],
    ['failed', 'FAILED', 'FAILURE'],
    ['dead_letter', 'DEAD_LETTER', 'FAILURE'],
    ['cancelled', 'CANCELLED', null],
  ] as const)('that is %s is shown as %s, its result as %s [GA-2.06] [GA-2.14]', async (state, word, result) => {
    const caller = await queue.caller();
    const { id } = await queue.ledger.putJob(state, { orgId: caller.orgId });
    const { body } = await caller.get(`/jobs/${id}`, all);
    expect(body.state).toBe(word);
    expect(body.result?.status ?? null).toBe(result);
    expect(body.completed_at === null).toBe(!['COMPLETED', 'FAILED', 'DEAD_LETTER', 'CANCELLED'].includes(word));
  });

  it('shows what its handler reports [GA-2.13] [GA-2.19..21]', async () => {
    const caller = await queue.caller();
    const gate = new Gate();
    const jobId = await caller.act(async (context) => {
      await context.reportProgress(40, 'sending');
      await gate.pass();
    });
    await gate.reached();
    const { body } = await caller.get(`/jobs/${jobId}`);
    expect(body.progress).toMatchObject({ percent: 40, message: 'sending' });
    expect(Date.parse(body.progress.updated_at)).toBeGreaterThanOrEqual(Date.parse(body.started_at));
    gate.open();
    const silent = await caller.reached(await caller.act(() => null), 'COMPLETED');
    expect(silent).not.toHaveProperty('progress');
    await caller.reached(jobId, 'COMPLETED');
  });

  it('gives result and history only when asked [GA-2.02] [GA-2.03] [GA-2.14] [GA-2.15]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(() => ({ sent: 1 }));
    await caller.reached(jobId, 'COMPLETED');
    const bare = (await caller.get(`/jobs/${jobId}`)).body;
    expect(bare).not.toHaveProperty('result');
    expect(bare).not.toHaveProperty('history');
    const declined = (await caller.get(`/jobs/${jobId}`, { include_result: 'false', include_history: 'false' })).body;
    expect(declined).not.toHaveProperty('result');
    const full = (await caller.get(`/jobs/${jobId}`, all)).body;
    expect(full.result).toMatchObject({ status: 'SUCCESS', output: { sent: 1 } });
    expect(full.history).toHaveLength(3);
    expect((await caller.get(`/jobs/${jobId}`, { include_result: 'perhaps' })).status).toBe(400);
    expect((await caller.get(`/jobs/${jobId}`, { include_results: 'true' })).body.details[0].message).toContain('include_result?');
  });

  it('that does not exist, belongs to another org, or has an invalid id is 404 [GA-2.01] [GA-6.14]', async () => {
    const caller = await queue.caller();
    const foreign = await (await queue.caller()).submit();
    for (const id of [randomUUID(), foreign, 'no-id', '%00']) {
      const { status, body } = await caller.get(`/jobs/${id}`);
      expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
    }
  });
});

describe('a result', () => {
  it('of success holds what the handler returned, JSON or bytes [GA-2.22] [GA-2.23] [GA-2.25] [GA-2.26]', async () => {
    const caller = await queue.caller();
    const outputs = [{ a: [1] }, [1, 2], 'text', 7, null];
    for (const output of outputs) {
      const { result } = await caller.reached(await caller.act(() => output), 'COMPLETED');
      expect(result).toEqual({ status: 'SUCCESS', output, duration_ms: expect.any(Number), attempt: 1 });
    }
    const bytes = await caller.reached(await caller.act(() => new Uint8Array([1, 2, 3])), 'COMPLETED');
    expect(bytes.result.output).toEqual({ $bytes: 'AQID' });
  });

  it('takes as long as its attempt did, and names that attempt [GA-2.25] [GA-2.26]', async () => {
    const caller = await queue.caller();
    let failures = 1;
    const jobId = await caller.act(async () => {
      if (failures-- > 0) throw new Error('once');
      await queue.ledger.moveClock(60);
    });
    const { result } = await caller.reached(jobId, 'COMPLETED');
    expect(result.attempt).toBe(2);
    expect(result.duration_ms).toBeGreaterThanOrEqual(60);
    expect(result.duration_ms).toBeLessThan(30_000);
  });

  it('of failure holds category, code and message instead of an output [GA-2.22] [GA-2.24] [GA-2.27..29]', async () => {
    const caller = await queue.caller();
    const refuse = () => {
      throw new PermanentError('no such address', { code: 'NO_ADDRESS' });
    };
    const { result } = await caller.reached(await caller.act(refuse), 'FAILED');
    expect(result.status).toBe('FAILURE');
    expect(result.error).toMatchObject({ category: 'PERMANENT', code: 'NO_ADDRESS', message: 'no such address' });
    expect(result).not.toHaveProperty('output');
  });

  it('shows the stack only to keys with failures:read [GA-2.30]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(() => {
      throw new PermanentError('no');
    });
    const seen = await caller.reached(jobId, 'FAILED');
    expect(seen.result.error.stack_trace).toContain('PermanentError');
    const reader = await caller.with('jobs:read');
    const { body } = await reader.get(`/jobs/${jobId}`, all);
    expect(body.result.error.code).toBe('PERMANENT_ERROR');
    expect(body.result.error).not.toHaveProperty('stack_trace');
  });

  it('of a job cancelled in its attempt is a failure of the system, code CANCELLED [GA-2.24] [GA-2.27]', async () => {
    const caller = await queue.caller();
    const gate = new Gate();
    const jobId = await caller.act(async (context) => {
      gate.pass();
      await untilAborted(context.signal);
    });
    await gate.reached();
    await caller.post(`/jobs/${jobId}/cancel`, { force: true });
    const job = await caller.reached(jobId, 'CANCELLED');
    expect(job.result).toMatchObject({ status: 'FAILURE', error: { category: 'SYSTEM', code: 'CANCELLED' } });
  });
});

describe('the history', () => {
  it('holds every change of state with its time and reason, oldest first [GA-2.15] [GA-2.31..34]', async () => {
    const caller = await queue.caller();
    const { history } = await caller.reached(await caller.act(() => null), 'COMPLETED');
    expect(history.map((each: Record<string, string>) => [each.from_state, each.to_state, each.reason])).toEqual([
      ['PENDING', 'SCHEDULED', 'submitted'],
      ['SCHEDULED', 'RUNNING', 'started'],
      ['RUNNING', 'COMPLETED', 'succeeded'],
    ]);
    const times = history.map((each: { timestamp: string }) => each.timestamp);
    expect(times.toSorted()).toEqual(times);
  });

  it('shows that a handler postponed the job, which has no failure, and that it failed with its child', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(() => Promise.reject(new PostponeError({ retryAfter: '1h' })));
    const { history, last_error, max_attempts } = await caller.reached(jobId, 'RETRYING');
    expect(history.at(-1)).toMatchObject({ from_state: 'RUNNING', to_state: 'RETRYING', reason: 'postponed' });
    expect([last_error ?? null, max_attempts]).toEqual([null, 4]);
    expect((await caller.get(`/jobs/${jobId}/failure`)).status).toBe(404);
    const { type, payload } = queue.acting(() => Promise.reject(new PermanentError('no'))) as Submission;
    const parent = await caller.act(async (context) => void (await context.spawn({ type, payload }, { join: 'all' })));
    const failed = await caller.reached(parent, 'FAILED');
    expect(failed.history.at(-1)).toMatchObject({ to_state: 'FAILED', reason: 'child_failed' });
    expect(failed.result.error).toMatchObject({ code: 'CHILD_FAILED' });
  });
});
