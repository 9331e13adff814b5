import { AppError } from '../core/errors.ts';
import type { EngineEvents } from '../engine/events.ts';
import { raceWithTimeout } from '../engine/race-with-timeout.ts';
import type { Queryable } from '../ledger/driver/statement.ts';
import { hasDueWork } from '../ledger/queues/due-work.ts';
import { expireJobs } from '../ledger/upkeep/expire-jobs.ts';
import type { Millrace } from '../library/millrace.ts';
import type { JobTypes } from '../library/typed-jobs.ts';

export type RoundParams<Jobs extends JobTypes> = { millrace: Millrace<Jobs>; db: Queryable; limitMs: number };

/** Some steps emit no event, such as staging a timer, so the round also polls. */
const POLL_MS = 10;
const EXPIRE_LIMIT = 500;
const EVENTS = ['started', 'completed', 'failed', 'cancelled', 'postponed', 'lost', 'error'] as const;

/**
 * Starts the real engine, waits until nothing is due, and stops it. The loops of the engine run once when they start, so they find
 * everything that came due while it was stopped. Only the loop that ends jobs past their
 * lifetime first waits for up to 20 s, so the round ends such jobs itself.
 */
export async function runRound<Jobs extends JobTypes>({ millrace, db, limitMs }: RoundParams<Jobs>): Promise<void> {
  const deadlineMs = performance.now() + limitMs;
  let lastError: EngineEvents['error'] | null = null;
  let wake = () => {};
  const stops = EVENTS.map((event) =>
    millrace.on(event, (facts) => {
      if ('error' in facts) lastError = facts;
      wake();
    }),
  );
  try {
    while ((await expireJobs(db, EXPIRE_LIMIT)).again);
    await millrace.start();
    for (;;) {
      const { promise: woken, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      if (!(await hasDueWork(db))) break;
      if (performance.now() > deadlineMs) throw await tooLong(millrace, limitMs, lastError);
      await raceWithTimeout(woken, POLL_MS, () => {});
    }
    await millrace.drain();
  } catch (error) {
    await millrace.drain({ grace: 0 });
    throw error;
  } finally {
    for (const stop of stops) stop();
  }
}

async function tooLong<Jobs extends JobTypes>(
  millrace: Millrace<Jobs>,
  limitMs: number,
  lastError: EngineEvents['error'] | null,
): Promise<AppError> {
  const { jobs } = await millrace.search({ states: ['running', 'scheduled'] }, { limit: 5 });
  const names = jobs.map((job) => `${job.type} ${job.id} (${job.state})`).join(', ');
  const message = `Jobs have not ended after ${limitMs} ms of real time: ${names}. Check that their handlers end, or raise limit.`;
  return new AppError('TIMED_OUT', { message, cause: lastError?.error });
}
