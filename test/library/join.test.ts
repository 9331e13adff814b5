import { describe, expect, it } from 'vitest';
import { type Handler, type JobContext, PermanentError, type SpawnOptions } from '../../src/index.ts';
import { AT_ONCE, Gate, useStage } from './fixture.ts';

const stage = useStage();

const refused: Handler = () => Promise.reject(new PermanentError('no'));

/** A parent that spawns a job which fails and one which completes, and the id of the first. */
async function parentOf(options: SpawnOptions, before: (context: JobContext, child: string) => unknown = () => undefined) {
  let failed = '';
  const jobId = await stage.act(async (context) => {
    failed = await context.spawn(stage.acting(refused), options);
    await context.spawn(
      stage.acting(() => 1),
      options,
    );
    await before(context, failed);
    return 'spawned';
  });
  return { job: await stage.end(jobId), failed };
}

describe('a parent whose joined child fails', () => {
  it.each([[true], ['all' as const]])('fails too with join %s, and names the child [GM-6.05]', async (join) => {
    const { job, failed } = await parentOf({ join });
    const message = `the child job ${failed} ended as failed`;
    expect(job).toMatchObject({ state: 'failed', lastFailure: { category: 'PERMANENT', code: 'CHILD_FAILED', message } });
    expect(job.result?.output).toBeNull();
    expect((await stage.path(job.id)).at(-1)).toBe('running>failed:child_failed');
    expect(await stage.violations()).toEqual([]);
  });

  it('fails too if the child ended before the handler of the parent did', async () => {
    const { job } = await parentOf({ join: 'all' }, (_context, child) => stage.end(child));
    expect(job).toMatchObject({ state: 'failed', lastFailure: { code: 'CHILD_FAILED' } });
  });

  it('completes if it asked only for the end of its children', async () => {
    const { job } = await parentOf({ join: 'settled' }, (_context, child) => stage.end(child));
    expect(job).toMatchObject({ state: 'completed', result: { output: 'spawned' } });
    expect((await parentOf({ join: 'settled' })).job.state).toBe('completed');
  });

  it('completes if it does not join it', async () => {
    expect((await parentOf({ join: false })).job.state).toBe('completed');
  });

  it('passes the failure on to the jobs that depend on it', async () => {
    const gate = new Gate();
    const parent = await stage.act(async (context) => {
      await context.spawn(stage.acting(refused), { join: 'all' });
      await gate.pass();
    });
    const after = await stage.act(() => 1, { dependsOn: [parent] });
    gate.open();
    expect(await stage.end(after)).toMatchObject({ state: 'failed', lastFailure: { code: 'DEPENDENCY_FAILED' } });
  });

  it('also fails if the child was cancelled', async () => {
    const gate = new Gate();
    const parent = await stage.act(async (context) => {
      const child = await context.spawn(
        stage.acting(() => 1, { delay: '1h' }),
        { join: 'all' },
      );
      await stage.millrace.cancel(child);
      await gate.pass();
    });
    gate.open();
    expect((await stage.end(parent)).lastFailure?.message).toMatch(/ended as cancelled$/);
  });
});

describe('a parent that runs again', () => {
  it('is not failed by a child of an earlier attempt that it did not spawn again', async () => {
    const parent = await stage.act(
      async (context) => {
        if (context.attempt > 1) return;
        await stage.end(await context.spawn(stage.acting(refused), { join: 'all' }));
        throw new Error('once more');
      },
      { backoff: AT_ONCE },
    );
    expect(await stage.end(parent)).toMatchObject({ state: 'completed', attemptsStarted: 2 });
  });

  it('is failed by one that it spawned again, until that has completed', async () => {
    let isMended = false;
    const child = stage.acting(() => (isMended ? 1 : Promise.reject(new PermanentError('no'))), { idempotencyKey: 'the-child' });
    let childId = '';
    const parent = await stage.act(async (context) => {
      childId = await context.spawn(child, { join: 'all' });
    });
    expect((await stage.end(parent)).state).toBe('failed');
    await stage.millrace.retry(parent);
    expect((await stage.end(parent)).state).toBe('failed');
    isMended = true;
    await stage.millrace.retry(childId);
    expect((await stage.end(childId)).state).toBe('completed');
    await stage.millrace.retry(parent);
    expect((await stage.end(parent)).state).toBe('completed');
  });
});

describe('a type that joins what it spawns', () => {
  it.each([
    [true, 'failed'],
    ['all', 'failed'],
    ['settled', 'completed'],
  ] as const)('with fanIn %s ends as %s when a child fails', async (fanIn, state) => {
    const millrace = await stage.open();
    const child = { type: `child-${fanIn}`, payload: {} };
    millrace.register({ type: `parent-${fanIn}`, fanIn, handler: async (context) => void (await context.spawn(child)) });
    millrace.register({ type: child.type, handler: refused });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: `parent-${fanIn}`, payload: {} });
    expect((await millrace.waitFor(jobId)).state).toBe(state);
  });

  it('is refused under another word', async () => {
    const millrace = await stage.open();
    expect(() => millrace.register({ type: 'x', fanIn: 'any' as 'all', handler: () => 1 })).toThrow(/fanIn must be true, false/);
    const { job } = await parentOf({ join: 'any' as 'all' });
    expect(job.lastFailure?.message).toBe("join must be true, false, 'all' or 'settled'.");
  });
});
