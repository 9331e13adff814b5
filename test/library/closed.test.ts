import { describe, expect, it } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { Gate, useBench } from './fixture.ts';

const bench = useBench();
const job = { type: 'after', payload: {} };
const CLOSED = { code: 'CLOSED', message: 'this Millrace is closed', remedy: expect.stringContaining('Millrace.open()') };

/** Every call that returns a promise. */
const calls = (millrace: Millrace): Record<string, () => Promise<unknown>> => ({
  submit: () => millrace.submit(job),
  submitMany: () => millrace.submitMany([job]),
  get: () => millrace.get('x'),
  search: () => millrace.search(),
  stats: () => millrace.stats(),
  cancel: () => millrace.cancel('x'),
  cancelMany: () => millrace.cancelMany({ all: true }),
  retry: () => millrace.retry('x'),
  update: () => millrace.update('x', { priority: 'LOW' }),
  failure: () => millrace.failure('x'),
  waitFor: () => millrace.waitFor('x'),
  explain: () => millrace.explain('x'),
  logs: () => millrace.logs('x'),
  follow: () => millrace.follow('x').next(),
  schedule: () => millrace.schedule('x', { cron: '@daily', submission: job }),
  unschedule: () => millrace.unschedule('x'),
  schedules: () => millrace.schedules(),
  start: () => millrace.start(),
  drain: () => millrace.drain(),
  'batches.submit': () => millrace.batches.submit([job]),
  'batches.open': () => millrace.batches.open('x'),
  'queues.list': () => millrace.queues.list(),
  'queues.configure': () => millrace.queues.configure('q:x', { order: 'fair' }),
  'queues.pause': () => millrace.queues.pause('q:x'),
  'queues.drain': () => millrace.queues.drain('q'),
  'queues.resume': () => millrace.queues.resume('q:x'),
  'queues.pauseType': () => millrace.queues.pauseType('x'),
  'queues.resumeType': () => millrace.queues.resumeType('x'),
  'queues.capType': () => millrace.queues.capType('x', 1),
  'queues.capOrg': () => millrace.queues.capOrg('x', 1),
});

/** Calls that do not talk to the database, or that a closed instance allows. */
const OTHERS = ['constructor', 'databaseUrl', 'register', 'on', 'close'];

describe('a closed Millrace', () => {
  it('refuses every call with CLOSED, and a second close has no effect', async () => {
    const millrace = await bench.open();
    await Promise.all([millrace.close(), millrace.close()]);
    await millrace.close();
    for (const [name, call] of Object.entries(calls(millrace))) await expect(call(), name).rejects.toMatchObject(CLOSED);
    expect(() => millrace.register({ type: 'late', handler: () => null })).toThrow(expect.objectContaining(CLOSED));
    expect(() => millrace.on('completed', () => {})).toThrow(expect.objectContaining(CLOSED));
    const names = [millrace, millrace.queues, millrace.batches].flatMap((each) => Object.getOwnPropertyNames(Object.getPrototypeOf(each)));
    expect(names.filter((name) => !OTHERS.includes(name)).sort()).toEqual(
      Object.keys(calls(millrace))
        .map((name) => name.replace(/^(?:queues|batches)\./, ''))
        .sort(),
    );
  });

  it('refuses calls from the moment close() is called', async () => {
    const idle = await bench.open();
    const working = await bench.work({ after: () => null });
    for (const millrace of [idle, working]) {
      const closing = millrace.close();
      await expect(millrace.submit(job)).rejects.toMatchObject(CLOSED);
      await closing;
    }
  });

  it('lets handlers that still run make their calls', async () => {
    const gate = new Gate();
    const millrace = await bench.open();
    millrace.register({
      type: 'parent',
      handler: async () => {
        await gate.pass();
        const { jobId } = await millrace.submit({ type: 'after', payload: { from: 'the handler' } });
        return jobId;
      },
    });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'parent', payload: {} });
    await gate.reached();
    const closing = millrace.close();
    gate.open();
    await closing;
    const reader = await bench.open();
    const parent = await reader.get(jobId);
    expect(parent?.state).toBe('completed');
    expect((await reader.get(parent?.result?.output as string))?.payload).toEqual({ from: 'the handler' });
  });
});

describe('calls that are under way when a Millrace is closed', () => {
  it('are done, or end with CLOSED', async () => {
    const millrace = await bench.open();
    const { jobId } = await millrace.submit(job);
    const many = Array.from({ length: 100 }, (_, no) => [
      millrace.submit({ type: 'after', payload: { no } }),
      millrace.submitMany([job, { ...job, dependsOn: [jobId] }]),
      millrace.get(jobId),
      millrace.queues.list(),
    ]).flat();
    const some = Array.from({ length: 5 }, () => [
      millrace.search({ types: ['after'] }),
      millrace.cancelMany({ filter: { types: ['x'] } }),
    ]);
    const settled = Promise.allSettled([...many, ...some.flat()]);
    const waiting = Promise.allSettled([millrace.waitFor(jobId)]);
    await millrace.close();
    for (const each of await settled) if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'CLOSED' });
    expect(await waiting).toMatchObject([{ status: 'rejected', reason: CLOSED }]);
  });
});
