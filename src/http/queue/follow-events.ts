import { isAppError } from '../../core/errors.ts';
import { isTerminal } from '../../core/states.ts';
import type { EventFeed } from '../../engine/follow/feed.ts';
import type { FeedPosition } from '../../engine/follow/feed-cursor.ts';
import type { FeedSubscription, JobWatch } from '../../engine/follow/feed-subscription.ts';
import { eventChunks, farewell, heartbeat, opening } from './event-stream.ts';

export type StreamRules = {
  readonly heartbeatMs: number;
  /** Throws when the caller's key is no longer valid. */
  check(): Promise<unknown>;
};

/** How often a stream checks its key. The authenticator caches keys, so a check is cheap. */
const LOOK_MS = 1_000;

/** The stream of an org. If the server ends it, the last event gives the reason. */
export async function* orgStreamText(subscription: FeedSubscription, rules: StreamRules): AsyncGenerator<string> {
  const pulse = new Pulse(rules.heartbeatMs);
  yield opening(subscription.position);
  try {
    for (;;) {
      await rules.check();
      const step = await subscription.next(pulse.waitMs);
      if (step.kind === 'overflowed') return yield farewell('SLOW_CONSUMER', step.position);
      if (step.kind === 'closed') return yield farewell('SHUTTING_DOWN', step.position);
      if (step.kind === 'events') {
        yield* eventChunks(step.events);
        pulse.beat();
      } else if (pulse.isDue()) yield heartbeat(step.position);
    }
  } catch (error) {
    yield farewell(reasonOf(error), subscription.position);
  }
}

export type FollowedJob = { feed: EventFeed; watch: JobWatch; orgId: string; jobId: string; after: FeedPosition };

/** The stream of a job: its history, then new events, until the job has ended. */
export async function* jobStreamText(job: FollowedJob, rules: StreamRules): AsyncGenerator<string> {
  const { feed, watch, orgId, jobId } = job;
  const pulse = new Pulse(rules.heartbeatMs);
  let position = job.after;
  yield opening(position);
  try {
    for (let isOver = false; ; ) {
      await rules.check();
      const events = await feed.readJob(orgId, { jobId, afterN: position.n });
      const last = events.at(-1);
      if (last !== undefined) {
        yield* eventChunks(events);
        pulse.beat();
        position = last;
        isOver = isTerminal(last.to);
        continue; // There may be more events: a job can be retried after its end.
      }
      if (isOver) return;
      if (pulse.isDue()) yield heartbeat(position);
      if ((await watch.next(pulse.waitMs)) === 'closed') return yield farewell('SHUTTING_DOWN', position);
    }
  } catch (error) {
    yield farewell(reasonOf(error), position);
  }
}

/** A client learns that its key was refused. Every other error is reported as UNAVAILABLE. */
function reasonOf(error: unknown) {
  const isRefusal = isAppError(error, 'UNAUTHORIZED') || isAppError(error, 'FORBIDDEN');
  return isRefusal ? error : 'UNAVAILABLE';
}

class Pulse {
  readonly waitMs: number;
  readonly #everyMs: number;
  #lastMs = performance.now();

  constructor(everyMs: number) {
    this.waitMs = Math.min(everyMs, LOOK_MS);
    this.#everyMs = everyMs;
  }

  beat(): void {
    this.#lastMs = performance.now();
  }

  isDue(): boolean {
    if (performance.now() - this.#lastMs < this.#everyMs) return false;
    this.beat();
    return true;
  }
}
