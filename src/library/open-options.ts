import type { DurationInput } from '../core/duration.ts';
import { AppError } from '../core/errors.ts';
import { checkPayloadLimit } from '../core/payload.ts';
import { checkPolicy, type Policy, PROFILES } from '../core/policy.ts';
import { durationMs } from './read-duration.ts';

export type OpenOptions = {
  /** The address of a PostgreSQL 15 or newer. Default: DATABASE_URL, else an embedded server in `home`. */
  database?: string;
  /** Where the embedded server keeps its data. Default: MILLRACE_HOME, else `.millrace` here. */
  home?: string;
  org?: string;
  /** Jobs run at once in this process. */
  concurrency?: number;
  /** Which queues to work on; `*` is all of them. */
  queues?: readonly string[];
  /** Defaults of the policy that jobs of this process get. */
  defaults?: Partial<Omit<Policy, 'profile'>>;
  maxPayloadBytes?: number;
  /**
   * How many database sessions there may be for calls of yours, and for the jobs that run here. Unless given, these and upkeep have
   * one each and share one more, so that a process that works has ten sessions at most.
   */
  pools?: { api?: number; workers?: number };
  /** The longest pause between two heartbeats of a worker; short leases shorten it. */
  heartbeat?: DurationInput;
  /** How long revoked API keys are remembered. Unless given, this process removes none. */
  keepRevokedKeys?: DurationInput;
  /** Bring the schema up to date (default), or refuse to work on an old one. */
  migrate?: boolean;
  name?: string;
  onNotice?: (sentence: string) => void;
};

export function optionalMs(options: OpenOptions, name: 'heartbeat' | 'keepRevokedKeys'): number | undefined {
  const given = options[name];
  return given === undefined ? undefined : durationMs(given, name);
}

/** The policy that jobs of this process start from. Refuses options that nobody could work by. */
export function checkedProfile({ defaults, maxPayloadBytes, concurrency = 1 }: OpenOptions): Policy {
  const profile = { ...PROFILES.gopherqueue, ...defaults };
  const issues = checkPolicy(profile, profile);
  const tooLarge = maxPayloadBytes === undefined ? null : checkPayloadLimit(maxPayloadBytes);
  if (tooLarge !== null) issues.push(tooLarge);
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    issues.push({
      field: 'concurrency',
      code: 'OUT_OF_RANGE',
      message: 'concurrency must be an integer of at least 1',
    });
  }
  if (issues.length === 0) return profile;
  throw new AppError('INVALID_CONFIG', { message: issues.map(({ message }) => message).join('; '), details: issues });
}
