import { describe, expect, it } from 'vitest';
import { type JobState, PermanentError, type Submission, TemporaryError } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage();

/** A job that ends in the state asked for when the gate opens. */
async function ending(state: JobState, gate: Gate): Promise<string> {
  const jobId = await stage.act(
    async () => {
      await gate.pass();
      if (state === 'failed') throw new PermanentError('never');
      if (state === 'dead_letter') throw new TemporaryError('never again');
    },
    { maxAttempts: 1 },
  );
  await gate.reached(1);
  return jobId;
}

const dependent = (dependsOn: readonly string[], more: Partial<Submission> = {}) =>
  stage.millrace.submit(stage.acting(() => 'ran', { dependsOn, ...more }));

describe('a job that depends on others', () => {
  it('is pending until all of them are completed, then runs [GM-2.02] [GM-6.01] [GM-6.13]', async () => {
    const [one, two] = [new Gate(), new Gate()];
    const first = await ending('completed', one);
    const second = await ending('completed', two);
    const waiting = await dependent([first, second]);
    expect(waiting).toMatchObject({ state: 'pending', scheduledFor: null });
    one.open();
    await stage.end(first);
    expect((await stage.millrace.get(waiting.jobId))?.state).toBe('pending');
    two.open();
    const job = await stage.end(waiting.jobId);
    expect(job).toMatchObject({ state: 'completed', dependsOn: [first, second], dependencyType: 'AFTER' });
    expect(job.startedAt?.getTime()).toBeGreaterThanOrEqual((await stage.end(second)).completedAt?.getTime() as number);
    expect((await stage.path(waiting.jobId)).slice(0, 2)).toEqual(['>pending:submitted', 'pending>scheduled:dependencies_met']);
  });

  it('runs at once when they are completed already', async () => {
    const first = await stage.act(() => 1);
    await stage.end(first);
    expect((await dependent([first])).state).toBe('scheduled');
  });

  it.each([
    { state: 'failed', proves: '[GM-6.14]' },
    { state: 'dead_letter', proves: '[GM-6.15]' },
  ] as const)('goes to $state with its dependency, as does what depends on it, without an attempt $proves', async ({ state }) => {
    const gate = new Gate();
    const first = await ending(state, gate);
    const second = await dependent([first]);
    const third = await dependent([second.jobId]);
    gate.open();
    for (const { jobId } of [second, third]) {
      const job = await stage.end(jobId);
      expect(job).toMatchObject({
        state,
        attemptsStarted: 0,
        lastFailure: { category: 'PERMANENT', code: 'DEPENDENCY_FAILED' },
      });
      expect((await stage.path(jobId)).at(-1)).toBe(`pending>${state}:dependency_${state}`);
    }
  });

  it('goes to cancelled with its dependency [GM-6.16]', async () => {
    const { jobId: first } = await stage.millrace.submit(stage.acting(() => 1, { delay: '1h' }));
    const second = await dependent([first]);
    await stage.millrace.cancel(first);
    expect((await stage.end(second.jobId)).state).toBe('cancelled');
    expect((await stage.path(second.jobId)).at(-1)).toBe('pending>cancelled:dependency_cancelled');
  });

  it('ends badly also when its dependency had ended so before [GM-6.14]', async () => {
    const gate = new Gate();
    const first = await ending('failed', gate);
    gate.open();
    await stage.end(first);
    expect((await stage.end((await dependent([first])).jobId)).state).toBe('failed');
  });

  it('after any runs when the first of them ends, well or badly [GM-6.02]', async () => {
    const [fails, lasts] = [new Gate(), new Gate()];
    const first = await ending('failed', fails);
    const second = await ending('completed', lasts);
    const waiting = await dependent([first, second], { dependencyType: 'AFTER_ANY' });
    expect(waiting.state).toBe('pending');
    fails.open();
    expect((await stage.end(waiting.jobId)).result?.output).toBe('ran');
    expect((await stage.millrace.get(second))?.state).toBe('running');
    lasts.open();
  });

  it('in a chain runs in order, and a failure stops the rest [GM-6.03]', async () => {
    const ran: string[] = [];
    const link = async (name: string, dependsOn: readonly string[]) => {
      const handler = () => {
        ran.push(name);
        if (name === 'b') throw new PermanentError('broken');
      };
      const submission = dependsOn.length === 0 ? {} : { dependsOn, dependencyType: 'CHAIN' as const };
      return stage.act(handler, submission);
    };
    const a = await link('a', []);
    const b = await link('b', [a]);
    const c = await link('c', [b]);
    const d = await link('d', [c]);
    expect((await stage.end(d)).state).toBe('failed');
    expect(ran).toEqual(['a', 'b']);
    expect((await stage.path(c)).at(-1)).toBe('pending>failed:chain_stopped');
  });

  it('inherits the highest priority of its dependencies, and keeps its own when that is higher [GM-3.11] [GM-6.11] [GM-6.12]', async () => {
    const gate = new Gate();
    const low = await stage.act(() => gate.pass(), { priority: 'LOW' });
    const high = await stage.act(() => gate.pass(), { priority: 'HIGH' });
    const raised = await dependent([low, high], { priority: 'BULK' });
    const own = await dependent([low], { priority: 'CRITICAL' });
    gate.open();
    expect((await stage.end(raised.jobId)).priority).toBe('HIGH');
    expect((await stage.end(own.jobId)).priority).toBe('CRITICAL');
  });

  it('also waits for its own time', async () => {
    const gate = new Gate();
    const first = await ending('completed', gate);
    const second = await dependent([first], { delay: '1h' });
    gate.open();
    await until('the second job is delayed', async () => (await stage.millrace.get(second.jobId))?.state, 'delayed');
    expect((await stage.path(second.jobId)).at(-1)).toBe('pending>delayed:dependencies_met');
  });

  it('is refused when one of them does not exist, or is another org’s [GM-6.10]', async () => {
    const elsewhere = await stage.open({ org: await stage.ledger.newOrg() });
    const foreign = await elsewhere.submit({ type: 'x', payload: {} });
    for (const id of ['7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11', foreign.jobId]) {
      await expect(dependent([id])).rejects.toMatchObject({
        details: [{ field: 'dependsOn', code: 'DEPENDENCY_NOT_FOUND' }],
      });
    }
  });

  it('may stand a hundred levels deep, not a hundred and one [GM-6.08]', async () => {
    let last = (await stage.millrace.submit(stage.acting(() => 1, { delay: '1h' }))).jobId;
    for (let level = 1; level <= 100; level++) last = (await dependent([last])).jobId;
    await expect(dependent([last])).rejects.toMatchObject({ details: [{ code: 'DEPENDENCY_DEPTH' }] });
  });

  it('may have a thousand dependencies, not a thousand and one [GM-6.09]', async () => {
    const batch = Array.from({ length: 1_000 }, () => stage.acting(() => 1, { delay: '1h' }));
    const ids = (await stage.millrace.submitMany(batch)).results.map(({ jobId }) => jobId as string);
    const { jobId } = await dependent(ids);
    expect((await stage.millrace.get(jobId))?.dependsOn).toHaveLength(1_000);
    const other = await stage.act(() => 1);
    await expect(dependent([...ids, other])).rejects.toMatchObject({ details: [{ code: 'DEPENDENCY_BREADTH' }] });
  });
});

describe('fan-in', () => {
  it('holds a job until all it spawned to join as settled have ended, whatever their end [GM-6.05]', async () => {
    const gate = new Gate();
    const children: string[] = [];
    const jobId = await stage.act(async (context) => {
      children.push(
        await context.spawn(
          stage.acting(() => gate.pass()),
          { join: 'settled' },
        ),
      );
      children.push(
        await context.spawn(
          stage.acting(() => Promise.reject(new PermanentError('no'))),
          { join: 'settled' },
        ),
      );
      await context.spawn(stage.acting(() => 1, { delay: '1h' }));
      return 'all called';
    });
    await until('both children have been spawned', () => gate.arrived === 1 && children.length === 2);
    await stage.end(children[1] as string);
    const summary = async () => (await stage.millrace.explain(jobId))?.summary;
    await until('one child is left', () => summary(), 'Its handler has finished. It waits for 1 job that it spawned.');
    expect((await stage.millrace.get(jobId))?.state).toBe('running');
    gate.open();
    expect(await stage.end(jobId)).toMatchObject({ state: 'completed', result: { output: 'all called' } });
    expect((await stage.millrace.get(children[0] as string))?.state).toBe('completed');
  });

  it('is the rule for a type that says so [GM-6.05]', async () => {
    const millrace = await stage.open();
    const gate = new Gate();
    const child = { type: 'fan-child', payload: {} };
    millrace.register({
      type: 'fan-parent',
      fanIn: true,
      handler: async (context) => void (await context.spawn(child)),
    });
    millrace.register({ type: 'fan-child', handler: () => gate.pass() });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'fan-parent', payload: {} });
    await gate.reached();
    expect((await millrace.get(jobId))?.state).toBe('running');
    gate.open();
    expect((await millrace.waitFor(jobId)).state).toBe('completed');
  });

  it('refuses a child that waits for the parent that waits for it [GM-6.06] [GM-6.07]', async () => {
    const jobId = await stage.act((context) =>
      context.spawn(
        stage.acting(() => 1, { dependsOn: [context.jobId] }),
        { join: true },
      ),
    );
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'failed', lastFailure: { code: 'INVALID_REQUEST' } });
  });
});
