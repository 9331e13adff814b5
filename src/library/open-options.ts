import { type DurationInput, durationMs } from '../core/duration.ts';
import { AppError } from '../core/errors.ts';
import { checkPayloadLimit } from '../core/payload.ts';
import { checkPolicy, type Policy, PROFILES } from '../core/policy.ts';

export type OpenOptions = {
  /** The address of a PostgreSQL server, version 15 or later. Default: DATABASE_URL, else an embedded server in `home`. */
  database?: string;
  /** The data folder of the embedded server. Default: MILLRACE_HOME, else `.millrace` in the current folder. */
  home?: string;
  /** The org of all jobs of this instance. */
  org?: string;
  /** How many jobs run at the same time in this process. */
  concurrency?: number;
  /**
   * The percentage of the slots that only an org may take of which this process runs no job, so that the long jobs of one org cannot
   * occupy every slot. Default 0. No slot is reserved while there is one org.
   */
  reserve?: number;
  /** The queues that this process works on. `*` means all queues. */
  queues?: readonly string[];
  /** The default policy of jobs that this process submits. */
  defaults?: Partial<Omit<Policy, 'profile'>>;
  /** The largest payload of a job. */
  maxPayloadBytes?: number;
  /**
   * The largest number of database sessions for calls of this API, and for the jobs that run here. By default these and upkeep have
   * one session each and share one more. A process with workers then has ten sessions at most.
   */
  pools?: { api?: number; workers?: number };
  /** The longest pause between two heartbeats of a worker. Short leases make it shorter. */
  heartbeat?: DurationInput;
  /**
   * True (default): end the process with SIGKILL when its event loop stays blocked past the timeout of a handler. Such a process ignores
   * SIGTERM. False: only return its jobs to the queue. A process that listens for a debugger is never ended.
   */
  exitWhenBlocked?: boolean;
  /** How long revoked API keys are kept. By default this process deletes none. */
  keepRevokedKeys?: DurationInput;
  /** True (default): bring the schema up to date. False: throw SCHEMA_TOO_OLD for an old schema. */
  migrate?: boolean;
  /** The name of the worker in lists and explanations. */
  name?: string;
  /** Receives notices about the embedded server. */
  onNotice?: (sentence: string) => void;
};

export function optionalMs(options: OpenOptions, name: 'heartbeat' | 'keepRevokedKeys'): number | undefined {
  const given = options[name];
  return given === undefined ? undefined : durationMs(given, name);
}

/** Returns the default policy of this process. Throws INVALID_CONFIG for options that are not valid. */
export function checkedProfile({ defaults, maxPayloadBytes, concurrency = 1, reserve = 0 }: OpenOptions): Policy {
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
  if (!Number.isInteger(reserve) || reserve < 0 || reserve > 50) {
    issues.push({ field: 'reserve', code: 'OUT_OF_RANGE', message: 'reserve must be an integer from 0 to 50: a percentage of the slots' });
  }
  if (issues.length === 0) return profile;
  throw new AppError('INVALID_CONFIG', { message: issues.map(({ message }) => message).join('; '), details: issues });
}
