import type { Policy } from '../policy.ts';
import type { ExecutionType } from './kinds.ts';

/** What the configuration says of the execution API. */
export type ExecutionSettings = {
  /** The policy of its jobs; their timeout is already scaled as their durations will be. */
  readonly profile: Policy;
  readonly timeScale: number;
  /** The chance of a failing kind where a request names none. */
  readonly failureProbability: number;
  readonly allowedTypes: readonly ExecutionType[];
  /** As configured, before any scaling. */
  readonly maxRuntimeMs: number;
  /** How often a worker reports that it is alive. */
  readonly heartbeatMs: number;
  /** Jobs that may wait in the queue. */
  readonly queueSize: number;
  /** Jobs that may run at once over all workers. */
  readonly activeJobs: number;
  /** Requests of a client in a UTC day; 0 is without limit. */
  readonly quota: number;
  readonly payloadBytes: number;
  readonly bodyBytes: number;
  /** Answer 404 instead of 403 for a job of another client. */
  readonly hideForeignJobs: boolean;
  /** How long a request without a key is recognised as a repeat; 0 is never. */
  readonly duplicateWindowMs: number;
  readonly keyLifetimeMs: number;
  readonly revokedKeysMs: number;
  readonly registration: 'open' | 'token';
  readonly bootstrapToken: string | null;
  /** Calls without a credential from one address in a minute. */
  readonly openCallsPerMinute: number;
};
