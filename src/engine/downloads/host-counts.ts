import { type HostOutcome, isThrottling } from '../../core/ingest/host-gate.ts';
import type { PlaceRequest } from '../../ledger/downloads/host-places.ts';

/** What happened at a host and is not in the ledger yet. */
export type Counts = Pick<PlaceRequest, 'requests' | 'bytes' | 'errors' | 'successes' | 'isThrottled' | 'pauseMs'>;

export const NOTHING: Counts = { requests: 0, bytes: 0, errors: 0, successes: 0, isThrottled: false, pauseMs: null };

/** One org could otherwise stop a host for all others, with a URL that responds with 503 and a long `Retry-After`. */
const MAX_PAUSE_MS = 600_000;

export function counted({ requests, bytes, errors, successes, isThrottled, pauseMs }: Counts, outcome: HostOutcome): Counts {
  const asksForPause = isThrottling(outcome) && outcome.retryAfterMs !== undefined;
  return {
    requests: requests + 1,
    bytes: bytes + outcome.bytes,
    errors: errors + (outcome.failed ? 1 : 0),
    successes: successes + (outcome.failed || outcome.status === null ? 0 : 1),
    isThrottled: isThrottled || isThrottling(outcome),
    pauseMs: asksForPause ? Math.max(Math.min(outcome.retryAfterMs, MAX_PAUSE_MS), pauseMs ?? 0) : pauseMs,
  };
}

export function added(one: Counts, other: Counts): Counts {
  return {
    requests: one.requests + other.requests,
    bytes: one.bytes + other.bytes,
    errors: one.errors + other.errors,
    successes: one.successes + other.successes,
    isThrottled: one.isThrottled || other.isThrottled,
    pauseMs: one.pauseMs === null ? other.pauseMs : Math.max(one.pauseMs, other.pauseMs ?? 0),
  };
}
