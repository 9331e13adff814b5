import { describe, expect, it } from 'vitest';
import type { JobUpdate } from '../../src/core/job-change.ts';
import { useBench } from './fixture.ts';

const bench = useBench();

async function withTypes() {
  const millrace = await bench.open({ concurrency: 1 });
  const order: string[] = [];
  for (const type of ['first', 'second']) {
    millrace.register({ type, handler: (ctx, { name }: { name: string }) => void order.push(`${ctx.type} ${name}`) });
  }
  return { millrace, order };
}

describe('changing a job that has not ended', () => {
  it('changes the five members that are open to change, and no event or updated_at with them [GM-10.15] [GM-10.03]', async () => {
    const { millrace, order } = await withTypes();
    const { jobId } = await millrace.submit({ type: 'first', payload: { name: 'a' }, tags: { team: 'x' } });
    const before = await millrace.get(jobId, { includeHistory: true });
    const after = await millrace.update(jobId, {
      type: 'second',
      priority: 'HIGH',
      tags: { team: 'y' },
      correlationId: 'trace-1',
      callbackUrl: 'https://example.com/done',
    });
    expect(after).toMatchObject({
      ...{ type: 'second', priority: 'HIGH', tags: { team: 'y' }, correlationId: 'trace-1' },
      ...{ callbackUrl: 'https://example.com/done', updatedAt: before?.updatedAt, state: 'scheduled' },
    });
    expect((await millrace.get(jobId, { includeHistory: true }))?.history).toEqual(before?.history);
    await millrace.start();
    await millrace.waitFor(jobId);
    expect(order).toEqual(['second a']);
    expect(await bench.violations()).toEqual([]);
  });

  it('moves a ready job in the line when its priority changes [GM-10.11]', async () => {
    const { millrace, order } = await withTypes();
    const submit = async (name: string) => (await millrace.submit({ type: 'first', payload: { name } })).jobId;
    const [a, b, c] = [await submit('a'), await submit('b'), await submit('c')];
    await millrace.update(c, { priority: 'CRITICAL' });
    await millrace.update(a, { priority: 'BULK' });
    await millrace.start();
    for (const id of [a, b, c]) await millrace.waitFor(id);
    expect(order).toEqual(['first c', 'first b', 'first a']);
  });

  it('refuses late changes, members that cannot change, and unknown types [GM-10.09]', async () => {
    const { millrace } = await withTypes();
    const { jobId } = await millrace.submit({ type: 'first', payload: { name: 'a' } });
    await expect(millrace.update(jobId, { type: 'nobody' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(millrace.update(jobId, { state: 'completed' } as unknown as JobUpdate)).rejects.toMatchObject({
      details: [{ field: 'state', code: 'UNKNOWN_MEMBER' }],
    });
    await millrace.start();
    await millrace.waitFor(jobId);
    await expect(millrace.update(jobId, { tags: { a: 'b' } })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await millrace.update('00000000-0000-4000-8000-00000000beef', { tags: {} })).toBeNull();
  });
});
