import { describe, expect, it } from 'vitest';
import { LockRetries } from '../../src/engine/submit/lock-retries.ts';
import { until } from '../until.ts';

const HELD = Object.assign(new Error('lock timeout'), { code: '55P03' });
const MESSAGE = 'Another transaction holds it.';

/** Attempts that fail until they are let through. */
function heldTask() {
  const task = {
    attempts: 0,
    isFree: false,
    attempt: async () => {
      task.attempts++;
      if (!task.isFree) throw HELD;
      return 'done';
    },
  };
  return task;
}

describe('LockRetries', () => {
  it('tries again until the lock is free', async () => {
    const retries = new LockRetries({ patienceMs: 80_000 });
    const task = heldTask();
    const running = retries.run('org', task.attempt, MESSAGE);
    await until(
      'three attempts have been made',
      () => task.attempts,
      (count) => count >= 3,
    );
    task.isFree = true;
    expect(await running).toBe('done');
    await retries.idle();
  });

  it('refuses a task whose time is over, and hands on any other failure at once', async () => {
    const retries = new LockRetries({ patienceMs: 50 });
    await expect(retries.run('org', heldTask().attempt, MESSAGE)).rejects.toMatchObject({
      ...{ code: 'UNAVAILABLE', message: MESSAGE, retryAfterMs: 1_000, cause: HELD },
    });
    const broken = () => Promise.reject(new Error('broken'));
    await expect(retries.run('org', broken, MESSAGE)).rejects.toThrow('broken');
    await retries.idle();
  });

  it('refuses the org that fills its share, and no other', async () => {
    const retries = new LockRetries({ maxWaitingOfOrg: 2, patienceMs: 50 });
    const waiting = [1, 2].map(() => retries.run('full', heldTask().attempt, MESSAGE));
    await expect(retries.run('full', async () => 'done', MESSAGE)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await retries.run('other', async () => 'done', MESSAGE)).toBe('done');
    await Promise.allSettled(waiting);
    expect(await retries.run('full', async () => 'done', MESSAGE)).toBe('done');
  });

  it('runs new tasks before repeated ones, and takes orgs in turn', async () => {
    const retries = new LockRetries({ maxAtOnce: 1 });
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = retries.run('a', () => gate.promise, MESSAGE);
    const task = (orgId: string, name: string) => retries.run(orgId, async () => void order.push(name), MESSAGE);
    const tasks = [task('a', 'a1'), task('a', 'a2'), task('a', 'a3'), task('b', 'b1')];
    gate.resolve();
    await Promise.all([first, ...tasks]);
    expect(order).toEqual(['a1', 'b1', 'a2', 'a3']);
  });
});
