import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue({ type: 'echo', handler: (_context, payload) => payload });
const MINUTE_MS = 60_000;
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

describe('an accepted job', () => {
  it('is answered with 202, its id, ACCEPTED and the state it was committed in [GA-1.01] [GA-1.21..23]', async () => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', { type: `t-${randomId()}`, payload: { to: 'ada' } });
    expect(status).toBe(202);
    expect(body).toMatchObject({ status: 'ACCEPTED', state: 'SCHEDULED' });
    expect(await caller.state(body.job_id)).toBe('SCHEDULED');
  });

  it('says when it was created and becomes eligible, and names no other job [GA-1.05] [GA-1.24] [GA-1.25] [GA-1.27] [GA-6.01]', async () => {
    const caller = await queue.caller();
    const before = Date.now();
    const { body } = await caller.post('/jobs', { type: 'later', payload: {}, delay: 'PT5M' });
    expect(body.state).toBe('DELAYED');
    expect(body.created_at).toMatch(ISO);
    expect(Math.abs(Date.parse(body.created_at) - before)).toBeLessThan(10_000);
    expect(Math.abs(Date.parse(body.scheduled_for) - Date.parse(body.created_at) - 5 * MINUTE_MS)).toBeLessThan(5);
    expect(body).not.toHaveProperty('existing_job_id');
  });

  it('may start after the default lifetime if it has a longer one [GA-1.05] [GM-4.13]', async () => {
    const caller = await queue.caller();
    const far = { type: 'later', payload: {}, delay: 'P30D' };
    const refused = await caller.post('/jobs', far);
    expect([refused.status, refused.body.details[0].code]).toEqual([400, 'BEYOND_LIFETIME']);
    expect(refused.body.details[0].message).toContain('Submit it with a longer lifetime');
    const { status, body } = await caller.post('/jobs', { ...far, lifetime: 'P31D' });
    expect([status, body.state]).toEqual([202, 'DELAYED']);
    expect((await caller.post('/jobs', { ...far, lifetime: 'long' })).body.details[0]).toMatchObject({ field: 'lifetime' });
  });

  it('is PENDING and has no time while a dependency is unmet [GA-1.14] [GA-1.15] [GA-1.23]', async () => {
    const caller = await queue.caller();
    const first = await caller.submit();
    const submission = { type: 'b', payload: {}, depends_on: [first], dependency_type: 'CHAIN' };
    const { body } = await caller.post('/jobs', submission);
    expect(body).toMatchObject({ state: 'PENDING', scheduled_for: null });
    const { body: job } = await caller.get(`/jobs/${body.job_id}`);
    expect(job).toMatchObject({ depends_on: [first], dependency_type: 'CHAIN', scheduled_for: null });
  });

  it('keeps the submitted values under the same names [GA-1.02] [GA-1.04] [GA-1.06] [GA-1.08] [GA-1.11..13] [GA-1.16] [GA-0.02]', async () => {
    const caller = await queue.caller();
    const given = {
      type: 'email',
      priority: 'LOW',
      max_attempts: 7,
      idempotency_key: 'k-1',
      correlation_id: 'c-1',
      tags: { customer: 'acme' },
      callback_url: 'https://example.com/done',
      queue: 'q:exports',
    };
    const runAt = new Date(Date.now() + MINUTE_MS);
    const jobId = await caller.submit({ ...given, scheduled_at: runAt.toISOString().replace('Z', '+00:00') });
    const { body } = await caller.get(`/jobs/${jobId}`);
    expect(body).toMatchObject({ ...given, state: 'DELAYED', scheduled_for: runAt.toISOString() });
  });

  it('may carry bytes, and its handler gets them as bytes [GA-1.03]', async () => {
    const caller = await queue.caller();
    const bytes = Buffer.from([0, 1, 2, 250]);
    const jobId = await caller.submit({ type: 'echo', payload: { $bytes: bytes.toString('base64') } });
    const job = await caller.reached(jobId, 'COMPLETED');
    expect(job.result.output).toEqual({ $bytes: bytes.toString('base64') });
    const object = await caller.submit({ type: 'echo', payload: { a: [1, { b: null }] } });
    expect((await caller.reached(object, 'COMPLETED')).result.output).toEqual({ a: [1, { b: null }] });
  });

  it('is stopped by its own timeout [GA-1.07] [GA-6.02]', async () => {
    const caller = await queue.caller();
    const hangs = () => new Promise<never>(() => {});
    const jobId = await caller.act(hangs, { timeout: 1, max_attempts: 1 });
    const job = await caller.reached(jobId, 'DEAD_LETTER');
    expect(job.result.error).toMatchObject({ category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT' });
  });

  it('waits between attempts as its backoff says [GA-1.10] [GA-1.17..20]', async () => {
    const caller = await queue.caller();
    const fails = () => {
      throw new Error('again');
    };
    const begin = (backoff: object) => caller.act(fails, { backoff: { jitter: false, initial_delay: 'PT1M', ...backoff } });
    const ids = await Promise.all([
      begin({ strategy: 'CONSTANT' }),
      begin({ strategy: 'LINEAR' }),
      begin({ strategy: 'EXPONENTIAL', multiplier: 5, max_delay: 3_600 }),
      begin({ strategy: 'EXPONENTIAL', multiplier: 5, max_delay: 'PT1M30S' }),
    ]);
    type Change = { to_state: string; timestamp: string };
    const timesOf = (history: Change[], state: string) =>
      history.filter(({ to_state }) => to_state === state).map(({ timestamp }) => Date.parse(timestamp));
    /** The seconds from its latest failure until the job is due. */
    const pauseAfter = async (failures: number, jobId: string) => {
      const look = async () => (await caller.get(`/jobs/${jobId}`, { include_history: 'true' })).body;
      await until('the job waits for its next attempt', async () => timesOf((await look()).history, 'RETRYING').length, failures);
      const { scheduled_for, history } = await look();
      const [readied] = timesOf(history, 'SCHEDULED').slice(1);
      const [first, ...more] = timesOf(history, 'RETRYING') as [number];
      if (readied !== undefined) expect(readied - first).toBeGreaterThanOrEqual(MINUTE_MS);
      return Math.round((Date.parse(scheduled_for) - (more.at(-1) ?? first)) / 1_000);
    };
    expect(await Promise.all(ids.map((id) => pauseAfter(1, id)))).toEqual([60, 60, 60, 60]);
    await queue.ledger.moveClock(MINUTE_MS);
    expect(await Promise.all(ids.map((id) => pauseAfter(2, id)))).toEqual([60, 120, 300, 90]);
  });
});

describe('a repeat', () => {
  it('of the same request gives the first job with 200 and DUPLICATE [GA-1.11] [GA-1.22] [GA-1.26]', async () => {
    const caller = await queue.caller();
    const submission = { type: 'pay', payload: { amount: 1 }, idempotency_key: 'pay-1' };
    const first = await caller.post('/jobs', submission);
    const again = await caller.post('/jobs', submission);
    expect(again.status).toBe(200);
    const { job_id: jobId, created_at, state, scheduled_for } = first.body;
    expect(again.body).toEqual({
      ...{ job_id: jobId, existing_job_id: jobId, status: 'DUPLICATE', state, created_at, scheduled_for },
    });
  });

  it('of a key with other content is refused with 409 and the existing id [GA-6.16]', async () => {
    const caller = await queue.caller();
    const submission = { type: 'pay', payload: { amount: 1 }, idempotency_key: 'pay-1' };
    const first = await caller.post('/jobs', submission);
    const other = await caller.post('/jobs', { ...submission, payload: { amount: 2 } });
    expect(other.status).toBe(409);
    expect(other.body).toMatchObject({ code: 'DUPLICATE', message: expect.stringContaining(first.body.job_id) });
    expect(other.body.details).toEqual([{ field: 'idempotency_key', code: 'DUPLICATE', message: other.body.message }]);
  });

  it('in another org is another job [GA-1.11]', async () => {
    const submission = { type: 'pay', payload: {}, idempotency_key: 'pay-1' };
    const first = await (await queue.caller()).post('/jobs', submission);
    const second = await (await queue.caller()).post('/jobs', submission);
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(first.body.job_id).not.toBe(second.body.job_id);
  });
});
