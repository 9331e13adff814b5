import type { MovedJob } from '../ledger/moved-jobs.ts';
import type { EventHub } from './events.ts';

/** What a transaction did to jobs. It is reported after the commit. */
export type Moves = (MovedJob | undefined)[];

type Origin = {
  /** The request that asked for the changes. */
  readonly requestId?: string | null;
  /** The event for jobs that did not fail. */
  readonly event?: 'moved' | 'released';
};

/** Reports changes of state that this process made outside of attempts. Call it after the commit, because a log line cannot be taken back. */
export function reportMoves(events: EventHub, moves: Readonly<Moves>, { requestId = null, event = 'moved' }: Origin = {}): void {
  for (const move of moves) {
    if (move === undefined) continue;
    const isFailed = move.to === 'failed' || move.to === 'dead_letter';
    events.emit(isFailed ? 'failedWaiting' : event, { ...move, requestId });
  }
}
