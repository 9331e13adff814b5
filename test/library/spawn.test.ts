import { describe, expect, it } from 'vitest';
import { AppError, type JobContext, TemporaryError } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage({ concurrency: 4 });
const idle = (more: object = {}) => ({ type: 'unserved', payload: {}, ...more });

/** The codes of what is wrong with the spawn, or what it answers. */
const codesOf = (spawning: Promise<string>): Promise<unknown> =>
  spawning.catch((error) => (error instanceof AppError ? error.details.map(({ code }) => code) : error));

describe('a cycle through a job that waits for its children', () => {
  /** A job that spawns, when the gate opens, a child that it waits for and that waits for the jobs then named. */
  async function joining(gate: Gate, dependsOn: () => readonly string[]): Promise<string> {
    const reached = gate.arrived + 1;
    const jobId = await stage.act(async (context: JobContext) => {
      await gate.pass();
      return codesOf(context.spawn(idle({ dependsOn: dependsOn() }), { join: true }));
    });
    await gate.reached(reached);
    return jobId;
  }

  it('is refused where the child waits for a job that waits for the parent [GM-6.06] [GM-6.07]', async () => {
    const gate = new Gate();
    let last = '';
    const parent = await joining(gate, () => [last]);
    last = (await stage.millrace.submit(idle({ dependsOn: [parent] }))).jobId;
    last = (await stage.millrace.submit(idle({ dependsOn: [last] }))).jobId;
    gate.open();
    expect((await stage.end(parent)).result?.output).toEqual(['DEPENDENCY_CYCLE']);
  });

  it('is refused where another parent lies between that waits for its own child [GM-6.06] [GM-6.07]', async () => {
    const [first, second] = [new Gate(), new Gate()];
    let other = '';
    const parent = await joining(first, () => [other]);
    other = await joining(second, () => [parent]);
    second.open();
    await until(
      'the job waits for its child',
      async () => (await stage.millrace.explain(other))?.summary.includes('waits for 1 job') === true,
    );
    first.open();
    expect((await stage.end(parent)).result?.output).toEqual(['DEPENDENCY_CYCLE']);
    expect((await stage.millrace.get(other))?.state).toBe('running');
    await stage.millrace.cancel(other);
  });

  it('is not seen where the jobs it depends on wait for others', async () => {
    const gate = new Gate();
    let last = '';
    const parent = await joining(gate, () => [last]);
    await stage.millrace.submit(idle({ dependsOn: [parent] }));
    const foreign = await stage.millrace.submit(idle());
    last = (await stage.millrace.submit(idle({ dependsOn: [foreign.jobId] }))).jobId;
    gate.open();
    await until(
      'the job waits for its child',
      async () => (await stage.millrace.explain(parent))?.summary.includes('waits for 1 job') === true,
    );
    await stage.millrace.cancel(parent);
  });
});

describe('a fan-out that is tried again', () => {
  it('finds the children it has by their keys, and may spawn as many as before [GM-6.04] [GA-5.24]', async () => {
    const child = (n: number) => idle({ idempotencyKey: `fan-${n}` });
    const first: string[] = [];
    const jobId = await stage.act(
      async (context) => {
        const again = await context.spawn(child(0));
        if (context.attempt === 2) return [again === first[0], typeof (await context.spawn(idle()))];
        first.push(again);
        for (let n = 1; n < 1_000; n += 37)
          first.push(...(await Promise.all(Array.from({ length: 37 }, (_, more) => context.spawn(child(n + more))))));
        const repeat = await codesOf(context.spawn(child(999)));
        const beyond = await codesOf(context.spawn(child(1_000)));
        throw new TemporaryError(JSON.stringify([repeat === first[999], beyond]));
      },
      { maxAttempts: 2 },
    );
    const job = await stage.end(jobId);
    expect(job.lastFailure?.message).toBe('[true,["TOO_MANY_CHILDREN"]]');
    expect(job).toMatchObject({ state: 'completed', result: { output: [true, 'string'] } });
  });
});

describe('a child whose key an open transaction holds', () => {
  it('is spawned once that has ended', async () => {
    const client = await stage.connect();
    await client.query('BEGIN');
    await stage.millrace.submit(idle({ idempotencyKey: 'child' }), { client });
    // On a busy machine the key may be held for longer than a spawn waits. The handler then runs again.
    const spawn = (context: JobContext) => context.spawn(idle({ idempotencyKey: 'child' }));
    const parent = await stage.act(spawn, { maxAttempts: 100 });
    await stage.ledger.untilBlocked();
    await until('the parent waits', async () => (await stage.millrace.get(parent))?.state, 'running');
    await client.query('ROLLBACK');
    const child = (await stage.end(parent)).result?.output as string;
    expect((await stage.millrace.get(child))?.idempotencyKey).toBe('child');
  });
});
