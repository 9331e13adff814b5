import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse, TomlError } from 'smol-toml';
import { type AddressPolicy, specialRangeOf } from '../core/address-policy.ts';
import { leastBodyMemory, SMALL_BODY_BYTES } from '../core/body-sizes.ts';
import { AppError, type Issue } from '../core/errors.ts';
import type { ExecutionType } from '../core/execution/kinds.ts';
import type { ExecutionSettings } from '../core/execution/settings.ts';
import { type IpRange, parseIp, parseRange } from '../core/ip-address.ts';
import type { JobLimit } from '../core/limit.ts';
import { type Policy, PROFILES } from '../core/policy.ts';
import { alertConfig } from './alert-config.ts';
import { Assembly, type Entries, invalidConfig } from './assemble.ts';
import { categoryConfig } from './category-config.ts';
import { ingestConfig } from './ingest-config.ts';
import { NO_LIMIT } from './values.ts';

/** All settings, read once and frozen. */
export type Config = ReturnType<typeof toConfig>;

export type LoadedConfig = {
  readonly config: Config;
  /** The file that was read; null when there is none. */
  readonly file: string | null;
  /** Every value with its source, in the order of the reference. */
  readonly entries: Entries;
  /** Sentences to show once at the start. */
  readonly warnings: readonly string[];
};

export type LoadParams = {
  /** A named file must exist. The default is MILLRACE_CONFIG, then `millrace.toml` in the working folder if it exists. */
  readonly file?: string;
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly folder?: string;
  /** Command-line options by the full name of their setting. They override every other source. */
  readonly options?: Readonly<Record<string, { option: string; text: string | undefined }>>;
};

const FILE = 'millrace.toml';

export function loadConfig(params: LoadParams = {}): LoadedConfig {
  const { environment = process.env, folder = process.cwd(), options = {} } = params;
  const file = findFile(params.file ?? (environment.MILLRACE_CONFIG || undefined), folder);
  const assembly = new Assembly();
  if (file !== null) assembly.addFile(readToml(file), file);
  assembly.addEnvironment(environment);
  assembly.addOptions(options);
  assembly.check();
  return { config: toConfig(assembly, folder), file, entries: assembly.entries, warnings: assembly.warnings };
}

function findFile(named: string | undefined, folder: string): string | null {
  const file = resolve(folder, named ?? FILE);
  if (existsSync(file)) return file;
  if (named === undefined) return null;
  throw new AppError('INVALID_CONFIG', { message: `The file ${file} does not exist. Name a file that exists.` });
}

function readToml(file: string): Record<string, unknown> {
  try {
    return parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    const why =
      cause instanceof TomlError
        ? `is not TOML in line ${cause.line}: ${cause.message.split('\n')[0]?.replace('Invalid TOML document: ', '')}`
        : `cannot be read: ${cause instanceof Error ? cause.message : cause}`;
    throw new AppError('INVALID_CONFIG', { message: `The file ${file} ${why}. Correct it and start again.`, cause });
  }
}

type Get = <T>(name: string) => T;

function toConfig(assembly: Assembly, folder: string) {
  const { entries, queueNames } = assembly;
  const get: Get = <T>(name: string) => entries.get(name)?.value as T;
  checkCombinations(get);
  return deepFreeze({
    server: {
      host: get<string>('server.host'),
      port: get<number>('server.port'),
      requestTimeoutMs: get<number>('server.request_timeout'),
      maxInFlight: get<number>('server.max_in_flight'),
      bodyMemoryBytes: get<number | null>('server.body_memory'),
      minUploadRate: get<number>('server.min_upload_rate'),
      trustProxy: get<false | number | readonly string[]>('server.trust_proxy'),
      allowedHosts: get<readonly string[]>('server.allowed_hosts'),
      corsOrigins: get<readonly string[]>('server.cors_origins'),
    },
    database: {
      /** Null: the embedded server in `home`. */
      url: get<string | null>('database.url'),
      home: resolve(folder, get<string>('database.home')),
      /** Null: the process chooses. */
      apiPool: get<number | null>('database.api_pool'),
      workerPool: get<number | null>('database.worker_pool'),
    },
    auth: { keyLifetimeMs: get<number>('auth.key_lifetime'), allowsOpen: get<boolean>('auth.allow_open') },
    workers: {
      concurrency: get<number | null>('workers.concurrency'),
      reservePercent: get<number>('workers.reserve'),
      queues: get<readonly string[]>('workers.queues'),
      drainGraceMs: get<number>('workers.drain_grace'),
      exitWhenBlocked: get<boolean>('workers.exit_when_blocked'),
    },
    simulation: {
      timeScale: get<number>('simulation.time_scale'),
      bounds: {
        durationMs: get<number>('simulation.max_duration'),
        outputBytes: get<number>('simulation.max_output'),
        children: get<number>('simulation.max_children'),
      },
    },
    telemetry: {
      /** Null: the process chooses. */
      logLevel: get<'debug' | 'info' | 'warn' | 'error' | 'off' | null>('telemetry.log_level'),
      logFormat: get<'json' | 'text' | null>('telemetry.log_format'),
      logLimit: get<number>('telemetry.log_limit'),
      otlpEndpoint: get<string | null>('telemetry.otlp_endpoint'),
      traceSample: get<number>('telemetry.trace_sample'),
    },
    limits: {
      requestsPerMinute: get<number>('limits.requests_per_minute'),
      payloadBytes: get<number>('limits.payload_size'),
      resultBytes: get<number>('limits.result_size'),
      bodyBytes: get<number | null>('limits.body_size'),
      queueSize: get<number>('limits.queue_size'),
      orgShare: get<number>('limits.org_share'),
      storedBytes: get<number>('limits.stored_size'),
    },
    audit: { jobs: get<'governed' | 'all'>('audit.jobs'), retentionMs: get<number>('retention.audit') },
    profile: queueProfile(get),
    categories: categoryConfig(assembly),
    execution: executionSettings(get),
    deadLetters: {
      retentionMs: get<number>('retention.dead_letters'),
      undoWindowMs: get<number>('deadletter.undo_window'),
    },
    webhooks: {
      timeoutMs: get<number>('webhooks.timeout'),
      maxRetries: get<number>('webhooks.max_retries'),
      backoff: { initialMs: get<number>('webhooks.backoff_base'), maxMs: get<number>('webhooks.backoff_max') },
      concurrency: get<number>('webhooks.concurrency'),
      disableAfterMs: get<number>('webhooks.disable_after'),
      secretOverlapMs: get<number>('webhooks.secret_overlap'),
      verifies: get<boolean>('webhooks.verify'),
      hostRate: get<number>('webhooks.host_rate'),
    },
    egress: {
      policy: addressPolicy(get),
      connectTimeoutMs: get<number>('egress.connect_timeout'),
      dnsTimeoutMs: get<number>('egress.dns_timeout'),
    },
    artifacts: {
      maxBytes: get<number>('artifacts.max_size'),
      retentionMs: get<number>('artifacts.retention'),
      bucket: get<string | null>('artifacts.bucket') ?? get<string>('ingest.bucket'),
    },
    ...ingestConfig(assembly, folder),
    alerts: alertConfig(assembly),
    queues: [...queueNames].map((name) => ({
      name,
      order: get<'fifo' | 'fair' | undefined>(`queues."${name}".order`),
      paused: get<boolean | undefined>(`queues."${name}".paused`),
      limit: limitOf(get<string | undefined>(`queues."${name}".limit`)),
      ...queueSettings((key) => get<number | undefined>(`queues."${name}".${key}`)),
    })),
  });
}

/** Zero removes a setting of a queue. A setting that the file does not name stays as it is in the ledger. */
function queueSettings(get: (key: string) => number | undefined) {
  const read = (key: string): number | null | undefined => (get(key) === 0 ? null : get(key));
  const sloMs = read('slo');
  return {
    concurrency: read('concurrency'),
    rate: read('rate'),
    depthCap: read('depth_cap'),
    sloSeconds: sloMs == null ? sloMs : sloMs / 1_000,
    reservedShare: get('reserved_share'),
  };
}

/** Null removes the limit of the queue. */
const limitOf = (text: string | undefined): JobLimit | null | undefined =>
  text === undefined ? undefined : text === NO_LIMIT ? null : (JSON.parse(text) as JobLimit);

function queueProfile(get: Get): Policy {
  return {
    ...PROFILES.gopherqueue,
    timeoutMs: get<number>('queue.execution_timeout'),
    leaseMs: get<number>('queue.visibility_timeout'),
    lifetimeMs: get<number>('queue.lifetime'),
    maxAttempts: get<number>('queue.max_attempts'),
    keyWindowMs: get<number>('queue.idempotency_window'),
    retentionMs: get<number>('retention.jobs'),
  };
}

function executionSettings(get: Get): ExecutionSettings {
  return {
    profile: executionProfile(get),
    timeScale: get<number>('simulation.time_scale'),
    failureProbability: get<number>('simulation.failure_probability'),
    allowedTypes: get<readonly ExecutionType[]>('simulation.allowed_types'),
    maxRuntimeMs: get<number>('execution.max_runtime'),
    heartbeatMs: get<number>('execution.heartbeat'),
    queueSize: get<number>('limits.queue_size'),
    orgShare: get<number>('limits.org_share'),
    activeJobs: get<number>('limits.active_jobs'),
    quota: get<number>('limits.quota'),
    payloadBytes: get<number>('limits.payload_size'),
    bodyBytes: get<number | null>('limits.body_size') ?? SMALL_BODY_BYTES,
    hideForeignJobs: get<boolean>('execution.hide_foreign_jobs'),
    duplicateWindowMs: get<number>('execution.duplicate_window'),
    keyLifetimeMs: get<number>('auth.key_lifetime'),
    revokedKeysMs: get<number>('retention.revoked_keys'),
    registration: get<'open' | 'token'>('auth.registration'),
    bootstrapToken: get<string | null>('auth.bootstrap_token'),
    openCallsPerMinute: get<number>('auth.open_calls_per_minute'),
  };
}

function executionProfile(get: Get): Policy {
  const profile: Policy = PROFILES.forgerun;
  return {
    ...profile,
    maxAttempts: get<number>('execution.max_retries') + 1,
    timeoutMs: Math.ceil(get<number>('execution.max_runtime') * get<number>('simulation.time_scale')),
    leaseMs: get<number>('execution.lease'),
    backoff: {
      ...profile.backoff,
      initialDelayMs: get<number>('execution.backoff_base'),
      maxDelayMs: get<number>('execution.backoff_max'),
    },
    autoRetry: get<boolean>('execution.auto_retry'),
    retentionMs: get<number>('retention.jobs'),
  };
}

function addressPolicy(get: Get): AddressPolicy {
  const allow = get<readonly string[]>('egress.allow').map((text) => parseRange(text) as IpRange);
  return { allow, targets: get<readonly string[]>('egress.targets') };
}

/** Checks that need more than one setting. */
function checkCombinations(get: Get): void {
  const issues: Issue[] = [];
  const require = (isMet: boolean, field: string, message: string): void => {
    if (!isMet) issues.push({ field, code: 'INVALID_VALUE', message: `${field} ${message}` });
  };
  const isHalf = get<number>('execution.heartbeat') * 2 <= get<number>('execution.lease');
  require(isHalf, 'execution.heartbeat', 'must be at most half of execution.lease');
  for (const section of ['execution', 'webhooks']) {
    const isOrdered = get<number>(`${section}.backoff_max`) >= get<number>(`${section}.backoff_base`);
    require(isOrdered, `${section}.backoff_max`, `must not be less than ${section}.backoff_base`);
  }
  // Otherwise a remote client of the server could reach services on this machine.
  const isLocal = get<readonly string[]>('egress.targets').length === 0 || isLoopback(get<string>('server.host'));
  require(isLocal, 'egress.targets', 'requires a loopback address such as 127.0.0.1 as server.host');
  const bodyBytes = get<number | null>('limits.body_size');
  const least = leastBodyMemory({ payloadBytes: get<number>('limits.payload_size'), bodyBytes });
  const isEnough = (get<number | null>('server.body_memory') ?? least) >= least;
  require(isEnough, 'server.body_memory', `must be at least ${least} bytes, three times the largest body: raise it, or set limits.body_size`);
  if (issues.length > 0) throw invalidConfig(issues);
}

export function isLoopback(host: string): boolean {
  const address = parseIp(host);
  return host === 'localhost' || (address !== null && specialRangeOf(address) === 'loopback');
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(value)) deepFreeze(member);
    Object.freeze(value);
  }
  return value;
}
