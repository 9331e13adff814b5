import { type Policy, PROFILES } from '../policy.ts';

/** Downloads and finalizers keep this policy. */
export const INGEST_PROFILE = 'fetchbox';
export const INGEST_QUEUE = 'q:exports';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const ATTEMPTS = 5;
const LEASE_MS = 30_000;
/** Time to claim a place at the host and to write the outcome, in addition to the download. */
const SLACK_MS = 60_000;

export type DownloadPolicy = {
  /** How long one download may take. */
  readonly timeoutMs: number;
  /** How long a task is kept after its end. */
  readonly retentionMs: number;
};

/** Temporary failures are retried for some minutes. A task that has not ended after a week becomes a dead letter. */
export function ingestPolicy({ timeoutMs, retentionMs }: DownloadPolicy): Policy {
  return {
    ...PROFILES.gopherqueue,
    profile: INGEST_PROFILE,
    maxAttempts: ATTEMPTS,
    timeoutMs: timeoutMs + SLACK_MS,
    leaseMs: LEASE_MS,
    lifetimeMs: 7 * DAY_MS,
    backoff: { ...PROFILES.gopherqueue.backoff, maxDelayMs: 10 * MINUTE_MS },
    retentionMs,
  };
}
