import type { DurationInput } from '../core/duration.ts';
import { AppError, type Issue } from '../core/errors.ts';
import type { CategoryName } from '../core/governance/categories.ts';
import { isUuid } from '../core/ids.ts';
import { Issues } from '../core/issues.ts';
import { isRecord, membersOf, refuseUnknown } from '../core/known-members.ts';
import { checkPayloadLimit } from '../core/payload.ts';
import { checkPolicy, type Policy, PROFILES } from '../core/policy.ts';
import { readDuration } from '../core/submission-fields.ts';
import type { EngineParams } from '../services/jobs/create-engine.ts';
import { type CategoryOptions, readCategories } from './category-options.ts';
import { type ObjectsOption, refuseObjects } from './objects-option.ts';

/** Options of `Millrace.open`. Each has a default. */
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
  /** What differs from the defaults of the five categories of governed jobs. */
  categories?: Partial<Record<CategoryName, CategoryOptions>>;
  /** The largest payload of a job. */
  maxPayloadBytes?: number;
  /** The largest result of a job that runs in this process: 1 MB by default, 16 MB at most. */
  maxResultBytes?: number;
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
  /**
   * Where artifacts are kept, in a folder that all processes share or in a service that speaks S3. Default: the folder `objects` in the data
   * folder of the embedded server. With another server there is no default, and artifacts need this option.
   */
  objects?: ObjectsOption;
  /** Receives notices about the embedded server. */
  onNotice?: (sentence: string) => void;
};

const MEMBERS = membersOf<OpenOptions>({
  database: true,
  home: true,
  org: true,
  concurrency: true,
  reserve: true,
  queues: true,
  defaults: true,
  categories: true,
  maxPayloadBytes: true,
  maxResultBytes: true,
  pools: true,
  heartbeat: true,
  exitWhenBlocked: true,
  keepRevokedKeys: true,
  migrate: true,
  name: true,
  objects: true,
  onNotice: true,
});

const POOLS = membersOf<NonNullable<OpenOptions['pools']>>({ api: true, workers: true });
const POLICY = Object.keys(PROFILES.gopherqueue).filter((member) => member !== 'profile');

/** Returns the options of the engine. Throws INVALID_CONFIG for options that are not valid. */
export function readOptions(options: OpenOptions): Omit<EngineParams, 'database'> {
  const issues = new Issues();
  if (!isRecord(options)) issues.add('options', 'INVALID_TYPE', 'must be an object, such as { database: url }');
  else refuseOptions(options, issues);
  throwIfAny(issues);
  const { defaults, maxPayloadBytes, maxResultBytes, concurrency, reserve } = options;
  const profile = { ...PROFILES.gopherqueue, ...defaults };
  issues.include(...checkPolicy(profile, profile).map(asDefault));
  const tooLarge = maxPayloadBytes === undefined ? null : checkPayloadLimit(maxPayloadBytes);
  if (tooLarge !== null) issues.include(tooLarge);
  const largeResult = maxResultBytes === undefined ? null : checkPayloadLimit(maxResultBytes, 'maxResultBytes');
  if (largeResult !== null) issues.include(largeResult);
  if (concurrency !== undefined && (!Number.isInteger(concurrency) || concurrency < 1)) {
    issues.add('concurrency', 'OUT_OF_RANGE', 'must be an integer of at least 1');
  }
  if (reserve !== undefined && (!Number.isInteger(reserve) || reserve < 0 || reserve > 50)) {
    issues.add('reserve', 'OUT_OF_RANGE', 'must be an integer from 0 to 50: a percentage of the slots');
  }
  const categories = options.categories === undefined ? undefined : readCategories(options.categories, issues);
  const heartbeatMs = optionalMs(options, 'heartbeat', issues);
  const revokedKeysMs = optionalMs(options, 'keepRevokedKeys', issues);
  throwIfAny(issues);
  return {
    profile,
    categories,
    limits: maxPayloadBytes === undefined ? undefined : { maxPayloadBytes },
    maxResultBytes,
    concurrency,
    reservePercent: reserve,
    queues: options.queues,
    name: options.name,
    heartbeatMs,
    exitWhenBlocked: options.exitWhenBlocked,
    revokedKeysMs,
  };
}

function refuseOptions(options: OpenOptions, issues: Issues): void {
  refuseUnknown(options, MEMBERS, issues);
  for (const [name, members] of [
    ['pools', POOLS],
    ['defaults', POLICY],
  ] as const) {
    const { [name]: given = {} } = options;
    if (isRecord(given)) refuseUnknown(given, members, issues, `${name}.`);
    else issues.add(name, 'INVALID_TYPE', 'must be an object');
  }
  const { org, queues, objects } = options;
  if (objects !== undefined) refuseObjects(objects, issues);
  if (org !== undefined && !isUuid(org)) issues.add('org', 'INVALID_ID', 'must be the id of an org, which is a UUID');
  if (queues !== undefined && !(Array.isArray(queues) && queues.every((name) => typeof name === 'string')))
    issues.add('queues', 'INVALID_TYPE', 'must be a list of names');
}

function throwIfAny({ list }: Issues): void {
  if (list.length === 0) return;
  throw new AppError('INVALID_CONFIG', { message: list.map(({ message }) => message).join('; '), details: list });
}

/** Policies name durations without their unit. The option has one: `defaults.timeoutMs`. */
function asDefault({ field, code, message }: Issue): Issue {
  const option = `defaults.${POLICY.includes(`${field}Ms`) ? `${field}Ms` : field}`;
  return { field: option, code, message: message.replace(field, option) };
}

function optionalMs(options: OpenOptions, name: 'heartbeat' | 'keepRevokedKeys', issues: Issues): number | undefined {
  const given = options[name];
  return given === undefined ? undefined : (readDuration(given, name, issues) ?? undefined);
}
