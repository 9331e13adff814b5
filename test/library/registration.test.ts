import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { PermanentError, RegistrationError } from '../../src/index.ts';
import { AT_ONCE, Gate, useBench } from './fixture.ts';

const bench = useBench();
const handler = () => 'done';

function thrownBy(work: () => unknown): RegistrationError {
  try {
    work();
  } catch (error) {
    return error as RegistrationError;
  }
  throw new Error('Nothing was thrown.');
}

describe('register', () => {
  it('answers REGISTERED the first time and REPLACED the second, and the later handler runs [GA-5.01] [GA-5.07] [GA-5.08] [GA-5.09] [GA-5.10] [GA-5.11]', async () => {
    const millrace = await bench.open();
    const first = millrace.register({ type: 'greet', handler: () => 'old' });
    const second = millrace.register({ type: 'greet', handler: () => 'new' });
    expect(first).toEqual({ type: 'greet', status: 'REGISTERED', previous: false });
    expect(second).toEqual({ type: 'greet', status: 'REPLACED', previous: true });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'greet', payload: {} });
    expect((await millrace.waitFor(jobId)).result?.output).toBe('new');
  });

  it('throws what cannot be used, with the status INVALID, and changes nothing [GA-5.07] [GA-5.08] [GA-5.09] [GA-5.12]', async () => {
    const millrace = await bench.open();
    millrace.register({ type: 'kept', handler: () => 'kept' });
    const unusable = {
      type: 'kept',
      handler: 'not a function' as unknown as () => string,
      concurrency: 0,
      maxAttempts: 101,
    };
    const refused = thrownBy(() => millrace.register(unusable));
    expect(refused).toBeInstanceOf(RegistrationError);
    expect(refused).toMatchObject({ code: 'INVALID_HANDLER', type: 'kept', status: 'INVALID', previous: true });
    expect(refused.details.map((issue) => issue.field).sort()).toEqual(['concurrency', 'handler', 'maxAttempts']);
    const split = thrownBy(() => millrace.register({ type: 'two\nlines', handler }));
    expect(split).toMatchObject({ status: 'INVALID', previous: false });
    expect(thrownBy(() => millrace.register({ type: 'x', handler, lease: '10ms' }))).toMatchObject({ status: 'INVALID' });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'kept', payload: {} });
    expect((await millrace.waitFor(jobId)).result?.output).toBe('kept');
  });

  it('refuses a timeout above the system default and takes a shorter one [GM-4.09] [GM-4.10] [GA-5.03]', async () => {
    const millrace = await bench.open({ defaults: { timeoutMs: 60_000 } });
    expect(thrownBy(() => millrace.register({ type: 'long', handler, timeout: '61s' }))).toMatchObject({
      status: 'INVALID',
      details: [{ field: 'timeout', code: 'OUT_OF_RANGE', message: expect.stringContaining('queue.execution_timeout') }],
    });
    expect(millrace.register({ type: 'short', handler, timeout: '59s' })).toMatchObject({ status: 'REGISTERED' });
    await expect(millrace.submit({ type: 'short', payload: {}, timeout: '61s' })).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      details: [{ field: 'timeout', code: 'OUT_OF_RANGE' }],
    });
  });

  it('throws an option that is misspelt, with the name that was meant', async () => {
    const millrace = await bench.open();
    const misspelt = { type: 'mail', handler, maxAttempt: 5, retries: 3 };
    const refused = thrownBy(() => millrace.register(misspelt));
    expect(refused.message).toContain('maxAttempt is not known (did you mean maxAttempts?)');
    expect(refused.details).toMatchObject([
      { field: 'maxAttempt', code: 'UNKNOWN_MEMBER' },
      { field: 'retries', code: 'UNKNOWN_MEMBER' },
    ]);
    const parser = { type: 'mail', handler, schema: { parse: () => ({}) } };
    expect(thrownBy(() => millrace.register(parser as never)).details).toMatchObject([{ field: 'schema', code: 'INVALID_VALUE' }]);
    expect(thrownBy(() => millrace.register(undefined as never)).message).toContain('must be an object');
    expect(millrace.register({ type: 'mail', handler })).toEqual({ type: 'mail', status: 'REGISTERED', previous: false });
  });

  it('must precede start', async () => {
    const millrace = await bench.work({ early: handler });
    expect(() => millrace.register({ type: 'late', handler })).toThrow(/before start/);
  });
});

describe('a registration', () => {
  it('gives its type a handler of a context and a payload that answers a result or an error [GA-5.02] [GA-5.06]', async () => {
    const millrace = await bench.work({
      add: (context, payload) => {
        const { a, b } = payload as { a: number; b: number };
        if (a < 0) throw new PermanentError('no debts', { code: 'NEGATIVE' });
        return { sum: a + b, by: context.jobId };
      },
    });
    const good = await millrace.submit({ type: 'add', payload: { a: 1, b: 2 } });
    const bad = await millrace.submit({ type: 'add', payload: { a: -1, b: 2 } });
    expect((await millrace.waitFor(good.jobId)).result).toMatchObject({
      status: 'SUCCESS',
      output: { sum: 3, by: good.jobId },
    });
    expect((await millrace.waitFor(bad.jobId)).result).toMatchObject({
      status: 'FAILURE',
      error: { category: 'PERMANENT', code: 'NEGATIVE', message: 'no debts' },
    });
  });

  it('sets the timeout and the attempts of its type, which a submission may change [GA-5.03] [GA-5.04]', async () => {
    const millrace = await bench.open();
    const attempts: string[] = [];
    const deadlines: Record<string, number> = {};
    millrace.register({
      ...{ type: 'layered', timeout: '20m', maxAttempts: 2, backoff: AT_ONCE },
      handler: (context) => {
        attempts.push(context.tags.who as string);
        deadlines[context.tags.who as string] = context.deadline.getTime() - Date.now();
        throw new Error('again');
      },
    });
    await millrace.start();
    const plain = await millrace.submit({ type: 'layered', payload: {}, tags: { who: 'type' } });
    const own = await millrace.submit({
      type: 'layered',
      payload: {},
      tags: { who: 'own' },
      maxAttempts: 1,
      timeout: '5m',
    });
    expect((await millrace.waitFor(plain.jobId)).attemptsStarted).toBe(2);
    expect((await millrace.waitFor(own.jobId)).attemptsStarted).toBe(1);
    expect(deadlines.type).toBeGreaterThan(10 * 60_000);
    expect(deadlines.type).toBeLessThanOrEqual(20 * 60_000);
    expect(deadlines.own).toBeLessThanOrEqual(5 * 60_000);
  });

  it('is known to processes that only submit, and does not alter jobs that exist [GA-5.04]', async () => {
    const submitter = await bench.open();
    const before = await submitter.submit({ type: 'announced', payload: {} });
    const worker = await bench.open();
    worker.register({ type: 'announced', handler, maxAttempts: 7 });
    await worker.queues.pauseType('announced');
    await worker.start();
    const other = await bench.open();
    const after = await other.submit({ type: 'announced', payload: {} });
    expect((await other.get(before.jobId))?.maxAttempts).toBe(3);
    expect((await other.get(after.jobId))?.maxAttempts).toBe(7);
  });

  it('caps how many jobs of its type run at once [GA-5.05]', async () => {
    const millrace = await bench.open({ concurrency: 10 });
    const gate = new Gate();
    millrace.register({ type: 'narrow', handler: () => gate.pass(), concurrency: 2 });
    millrace.register({ type: 'wide', handler: () => null });
    await millrace.start();
    const { results } = await millrace.submitMany(Array.from({ length: 6 }, () => ({ type: 'narrow', payload: {} })));
    await gate.reached(2);
    const witness = await millrace.submit({ type: 'wide', payload: {} });
    await millrace.waitFor(witness.jobId);
    expect(gate.arrived).toBe(2);
    gate.open();
    for (const { jobId } of results) await millrace.waitFor(jobId as string);
    await gate.reached(6);
  });

  it('checks payloads with any Standard Schema before the handler sees them [GM-8.12] [GM-8.17]', async () => {
    const millrace = await bench.open();
    const seen: unknown[] = [];
    const schema = z.object({ to: z.email(), copies: z.coerce.number().default(1) });
    millrace.register({ type: 'mail', schema, handler: (_, payload) => void seen.push(payload) });
    await millrace.start();
    const good = await millrace.submit({ type: 'mail', payload: { to: 'a@example.org', copies: '3' } });
    const bad = await millrace.submit({ type: 'mail', payload: { to: 'nobody' } });
    expect((await millrace.waitFor(good.jobId)).state).toBe('completed');
    const failed = await millrace.waitFor(bad.jobId);
    expect(failed).toMatchObject({ state: 'failed', attemptsStarted: 1 });
    expect(failed.result?.error).toMatchObject({ category: 'PERMANENT', code: 'INVALID_PAYLOAD' });
    expect(failed.result?.error?.message).toContain('to: ');
    expect(seen).toEqual([{ to: 'a@example.org', copies: 3 }]);
  });
});
