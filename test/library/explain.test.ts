import { describe, expect, it } from 'vitest';
import type { Millrace, Obstacle } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, useBench } from './fixture.ts';

const bench = useBench();
const UNKNOWN = '7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11';

async function obstacles(millrace: Millrace, jobId: string): Promise<Obstacle[]> {
  return ((await millrace.explain(jobId))?.obstacles ?? []).map(({ code }) => code);
}

// A worker that got no processor for a second counts as stalled until its next heartbeat. Therefore tests with a worker look again.
const untilObstacles = (millrace: Millrace, jobId: string, ...wanted: Obstacle[]) =>
  until(`the obstacles are ${wanted.join(', ')}`, () => obstacles(millrace, jobId), wanted);

const untilSummary = (millrace: Millrace, jobId: string, wanted: string) =>
  until('the summary says so', async () => (await millrace.explain(jobId))?.summary, wanted);

describe('explain', () => {
  it('names the dependency and the time a job waits for', async () => {
    const millrace = await bench.open();
    const first = await millrace.submit({ type: 'timed', payload: {}, delay: '1h' });
    const second = await millrace.submit({ type: 'timed', payload: {}, dependsOn: [first.jobId] });
    expect(await obstacles(millrace, first.jobId)).toContain('TIME');
    const told = await millrace.explain(second.jobId);
    expect(told?.state).toBe('pending');
    expect(told?.summary).toBe(`It waits for job ${first.jobId} (delayed).`);
  });

  it('says when no worker serves the type, and nothing keeps it once one does', async () => {
    const submitter = await bench.open();
    const { jobId } = await submitter.submit({ type: 'unserved', payload: {} });
    const told = await submitter.explain(jobId);
    expect(told?.obstacles.map(({ code }) => code)).toEqual(['NO_WORKER']);
    expect(told?.summary).toContain('No live worker serves type unserved');
  });

  it('names pauses of queue and type', async () => {
    const millrace = await bench.work({ halted: () => 1 });
    await millrace.queues.pause('q:halted');
    await millrace.queues.pauseType('halted');
    const { jobId } = await millrace.submit({ type: 'halted', queue: 'q:halted', payload: {} });
    await untilObstacles(millrace, jobId, 'QUEUE_PAUSED', 'TYPE_PAUSED');
    await millrace.queues.resume('q:halted');
    await untilObstacles(millrace, jobId, 'TYPE_PAUSED');
    await millrace.queues.resumeType('halted');
    expect((await millrace.waitFor(jobId)).state).toBe('completed');
  });

  it('names caps of type and org that are full, with their numbers', async () => {
    const org = await bench.ledger.newOrg();
    const gate = new Gate();
    const millrace = await bench.open({ org });
    millrace.register({ type: 'capped', handler: () => gate.pass(), concurrency: 1 });
    await millrace.queues.capOrg(org, 1);
    await millrace.start();
    await millrace.submit({ type: 'capped', payload: {} });
    await gate.reached();
    const { jobId } = await millrace.submit({ type: 'capped', payload: {} });
    await until('both caps are in the way', async () => (await millrace.explain(jobId))?.obstacles, [
      { code: 'TYPE_CAP', message: 'Type capped runs 1 of at most 1 jobs at the same time.' },
      { code: 'ORG_CAP', message: 'The org runs 1 of at most 1 jobs at the same time.' },
    ]);
    gate.open();
    await millrace.waitFor(jobId);
  });

  it('counts the jobs that go before it', async () => {
    const gate = new Gate();
    const millrace = await bench.work({ line: () => gate.pass() }, { concurrency: 1 });
    const { results } = await millrace.submitMany(Array.from({ length: 4 }, () => ({ type: 'line', payload: {} })));
    await gate.reached();
    const last = results[3]?.jobId as string;
    await until('two jobs are ahead in the line', async () => (await millrace.explain(last))?.facts.aheadInLine, 2);
    const ahead = { code: 'BEHIND_OTHERS', message: '2 ready jobs go before it.' } as const;
    await until('nothing else is in the way', async () => (await millrace.explain(last))?.obstacles, [ahead]);
    gate.open();
  });

  it('names the worker, the cancel request, the children it waits for and the end', async () => {
    const [own, child] = [new Gate(), new Gate()];
    const millrace = await bench.work(
      {
        parent: async (context) => {
          await context.spawn({ type: 'child', payload: {} }, { join: true });
          await own.pass();
        },
        child: () => child.pass(),
      },
      { name: 'worker-7' },
    );
    const { jobId } = await millrace.submit({ type: 'parent', payload: {} });
    await own.reached();
    await untilSummary(millrace, jobId, 'It is running on worker-7.');
    await millrace.cancel(jobId);
    await untilObstacles(millrace, jobId, 'CANCEL_REQUESTED');
    own.open();
    await until(
      'the job is held for its children',
      () => obstacles(millrace, jobId),
      (seen) => seen.includes('HELD_FOR_CHILDREN'),
    );
    child.open();
    const job = await millrace.waitFor(jobId);
    expect((await millrace.explain(jobId))?.summary).toBe(`It has ended: ${job.state}.`);
    expect(await obstacles(millrace, jobId)).toEqual([]);
  });

  it('knows no job that does not exist', async () => {
    const millrace = await bench.open();
    expect(await millrace.explain(UNKNOWN)).toBeNull();
    expect(await millrace.explain('not an id')).toBeNull();
  });
});
