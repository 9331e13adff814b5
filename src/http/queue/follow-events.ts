import { isAppError } from '../../core/errors.ts';
import { isTerminal } from '../../core/states.ts';
import type { EventFeed } from '../../engine/follow/feed.ts';
import type { FeedPosition } from '../../engine/follow/feed-cursor.ts';
import type { FeedSubscription, JobWatch } from '../../engine/follow/feed-subscription.ts';
import { eventChunks, farewell, heartbeat, opening } from './event-stream.ts';

export type StreamRules = {
  readonly heartbeatMs: number;
  /** Throws when the caller's key is no longer good. */
  check(): Promise<unknown>;
};

/** How often a stream checks its rules; the authenticator remembers what it read, so it is cheap. */
const LOOK_MS = 1_000;

/** The text of an org's stream. It ends by itself only when it has to, and says why. */
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

/** The text of a job's stream: what has happened, what happens, and the end after the event that ends the job. */
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
        continue; // There may be more; a job may also have been retried after its end.
      }
      if (isOver) return;
      if (pulse.isDue()) yield heartbeat(position);
      if ((await watch.next(pulse.waitMs)) === 'closed') return yield farewell('SHUTTING_DOWN', position);
    }
  } catch (error) {
    yield farewell(reasonOf(error), position);
  }
}

/** A refused key is told so; of everything else the client only learns that it should come back. */
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
