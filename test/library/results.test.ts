import { describe, expect, it } from 'vitest';
import type { RelatedResult, ResultsOptions } from '../../src/index.ts';
import { PermanentError } from '../../src/index.ts';
import { AT_ONCE, useStage } from './fixture.ts';

const stage = useStage();

/** What a job that depends on these reads. */
async function readAfter(dependsOn: string[], options?: ResultsOptions): Promise<RelatedResult[]> {
  let read: RelatedResult[] = [];
  const reader = await stage.act(
    async (context) => {
      read = await context.results(options);
    },
    { dependsOn, maxAttempts: 1 },
  );
  const ended = await stage.end(reader);
  if (ended.state !== 'completed') throw new Error(ended.lastFailure?.message);
  return read;
}

describe('results', () => {
  it('are those of the dependencies, in the order of their submission [GM-6.01]', async () => {
    const json = await stage.act(() => ({ n: 1 }));
    const bytes = await stage.act(() => new Uint8Array([1, 2]));
    const nothing = await stage.act(() => undefined);
    const again = await stage.act(({ attempt }) => (attempt === 1 ? Promise.reject(new Error('once')) : 'second'), { backoff: AT_ONCE });
    expect(await readAfter([again, nothing, json, bytes])).toEqual([
      { jobId: json, type: 'act', state: 'completed', result: { n: 1 }, error: null },
      { jobId: bytes, type: 'act', state: 'completed', result: new Uint8Array([1, 2]), error: null },
      { jobId: nothing, type: 'act', state: 'completed', result: null, error: null },
      { jobId: again, type: 'act', state: 'completed', result: 'second', error: null },
    ]);
    expect(await readAfter([json])).toHaveLength(1);
  });

  it('say how a dependency ended that did not complete [GM-6.03]', async () => {
    const failed = await stage.act(() => Promise.reject(new PermanentError('no such page', { code: 'GONE' })));
    await stage.end(failed);
    let read: RelatedResult[] = [];
    const reader = await stage.act(
      async (context) => {
        read = await context.results();
      },
      { dependsOn: [failed], dependencyType: 'AFTER_ANY' },
    );
    await stage.end(reader);
    const error = { category: 'PERMANENT', code: 'GONE', message: 'no such page' };
    expect(read).toMatchObject([{ jobId: failed, state: 'failed', result: null, error }]);
  });

  it('are those of joined children, for the parent and for the jobs after it', async () => {
    let own: RelatedResult[] = [];
    const parent = await stage.act(
      async (context) => {
        if (context.attempt === 1) {
          for (const n of [1, 2, 3])
            await context.spawn(
              stage.acting(() => n),
              { join: true },
            );
          await context.spawn(stage.acting(() => 'apart'));
          throw new Error('once more');
        }
        own = await context.results({ childrenOf: context.jobId });
      },
      { backoff: AT_ONCE },
    );
    const read = await readAfter([parent], { childrenOf: parent });
    expect(read.map(({ state, result }) => [state, result])).toEqual([1, 2, 3].map((n) => ['completed', n]));
    expect(own.map(({ jobId }) => jobId)).toEqual(read.map(({ jobId }) => jobId));
  });

  it('are not those of other jobs, of this org or another', async () => {
    const other = await stage.act(() => 1);
    const foreign = await stage.ledger.putJob('completed', { orgId: await stage.ledger.newOrg() });
    const first = await stage.act(() => 1);
    for (const childrenOf of [other, foreign.id, 'nonsense']) {
      await expect(readAfter([first], { childrenOf })).rejects.toThrow(
        'childrenOf must be the id of this job or of a job that it depends on',
      );
    }
  });

  it('come in pages, and not all at once if they are too large', async () => {
    const large = 'x'.repeat(1_000_000);
    const ids: string[] = [];
    for (let n = 0; n < 18; n++) ids.push(await stage.act(() => large));
    await expect(readAfter(ids)).rejects.toThrow('the first 16 fit, so pass limit: 16, and continue with offset');
    expect((await readAfter(ids, { limit: 16 })).map(({ jobId }) => jobId)).toEqual(ids.slice(0, 16));
    expect((await readAfter(ids, { offset: 16 })).map(({ jobId }) => jobId)).toEqual(ids.slice(16));
    await expect(readAfter(ids, { limit: 1_001 })).rejects.toThrow('limit must be an integer from 1 to 1000');
    await expect(readAfter(ids, { offset: -1 })).rejects.toThrow('offset must be an integer from 0');
    await expect(readAfter(ids, { page: 1 } as ResultsOptions)).rejects.toThrow('page');
  });
});
