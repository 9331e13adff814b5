import type { JobState } from './states.ts';

/** How the job of an idempotency key stands. */
export const KEY_STATUSES = ['pending', 'running', 'succeeded', 'failed', 'dead'] as const;

export type KeyStatus = (typeof KEY_STATUSES)[number];

/** A cancelled job counts as failed. */
export const KEY_STATUS_OF = {
  pending: 'pending',
  delayed: 'pending',
  scheduled: 'pending',
  retrying: 'pending',
  running: 'running',
  completed: 'succeeded',
  failed: 'failed',
  cancelled: 'failed',
  dead_letter: 'dead',
} as const satisfies Record<JobState, KeyStatus>;

/** An idempotency key and the job that it stands for. */
export type IdempotencyRecord = {
  readonly key: string;
  /** The job type that the key was submitted with. */
  readonly type: string;
  readonly projectId: string | null;
  readonly status: KeyStatus;
  readonly firstSeenAt: Date;
  /** The newest submission with the key. */
  readonly lastSeenAt: Date;
  readonly expiresAt: Date;
  readonly jobId: string;
  readonly state: JobState;
  /** Whether the job has a failure to show. A job that was cancelled before its first attempt has none. */
  readonly hasFailure: boolean;
};
