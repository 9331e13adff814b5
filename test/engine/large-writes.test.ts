import { expect, test } from 'vitest';
import { LargeWrites } from '../../src/engine/submit/large-writes.ts';

/** A write that ends when the test says so. */
function held(started: string[], name: string) {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const work = () => {
    started.push(name);
    return promise;
  };
  return { work, end: () => resolve(name), fail: () => reject(new Error(name)) };
}

test('two large writes run at a time, and the orgs take turns', async () => {
  const writes = new LargeWrites();
  const started: string[] = [];
  const [a1, a2, a3, a4, b1] = ['a1', 'a2', 'a3', 'a4', 'b1'].map((name) => held(started, name));
  const results = [a1, a2, a3, a4, b1].map((each, n) => writes.run(n === 4 ? 'b' : 'a', (each as NonNullable<typeof a1>).work));
  expect(started).toEqual(['a1', 'a2']);
  a1?.end();
  await results[0];
  a2?.end();
  await results[1];
  await new Promise(setImmediate);
  expect(started).toEqual(['a1', 'a2', 'a3', 'b1']);
  for (const each of [a3, a4, b1]) each?.end();
  expect(await Promise.all(results)).toEqual(['a1', 'a2', 'a3', 'a4', 'b1']);
});

test('a write that fails lets the next one run, and its caller gets the error', async () => {
  const writes = new LargeWrites({ maxAtOnce: 1 });
  const started: string[] = [];
  const [first, second] = [held(started, 'first'), held(started, 'second')];
  const failing = writes.run('a', first.work);
  const next = writes.run('a', second.work);
  first.fail();
  await expect(failing).rejects.toThrow('first');
  second.end();
  expect(await next).toBe('second');
});

test('beyond the bound, and after too long a wait, writes are refused', async () => {
  const writes = new LargeWrites({ maxAtOnce: 1, maxWaiting: 1, maxWaitMs: -1 });
  const late = writes.run('a', async () => 'never');
  await expect(late).rejects.toMatchObject({ code: 'UNAVAILABLE', retryAfterMs: 1_000 });
  const bounded = new LargeWrites({ maxAtOnce: 1, maxWaiting: 1 });
  const first = held([], 'first');
  const results = [bounded.run('a', first.work), bounded.run('a', async () => 'second')];
  await expect(bounded.run('b', async () => 'third')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  first.end();
  expect(await Promise.all(results)).toEqual(['first', 'second']);
});
