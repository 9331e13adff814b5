import type { Policy } from '../policy.ts';
import type { ExecutionType } from './kinds.ts';

/** The configuration of the execution API. */
export type ExecutionSettings = {
  /** The policy of its jobs. Its timeout is already multiplied by `timeScale`. */
  readonly profile: Policy;
  readonly timeScale: number;
  /** The probability that a request without a work kind gets a failing one. */
  readonly failureProbability: number;
  readonly allowedTypes: readonly ExecutionType[];
  /** Not yet multiplied by `timeScale`. */
  readonly maxRuntimeMs: number;
  readonly heartbeatMs: number;
  readonly queueSize: number;
  /** The part of the queue that one client may fill while it is alone. */
  readonly orgShare: number;
  /** How many jobs may run at the same time over all workers. */
  readonly activeJobs: number;
  /** How many requests a client may send in a UTC day; 0 means no limit. */
  readonly quota: number;
  readonly payloadBytes: number;
  readonly bodyBytes: number;
  /** Whether a job of another client is reported as 404 instead of 403. */
  readonly hideForeignJobs: boolean;
  /** How long an equal request without an idempotency key counts as a repeat; 0 means never. */
  readonly duplicateWindowMs: number;
  readonly keyLifetimeMs: number;
  readonly revokedKeysMs: number;
  readonly registration: 'open' | 'token';
  readonly bootstrapToken: string | null;
  /** How many calls without an API key one address may send in a minute. */
  readonly openCallsPerMinute: number;
};
