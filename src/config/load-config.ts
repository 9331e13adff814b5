import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse, TomlError } from 'smol-toml';
import { AppError } from '../core/errors.ts';
import type { ExecutionSettings } from '../core/execution/settings.ts';
import { checkPolicy, type Policy, PROFILES } from '../core/policy.ts';
import { Assembly, type Entries } from './assemble.ts';
import { executionOf } from './execution.ts';
import { type EgressSettings, egressOf, type WebhookSettings, webhooksOf } from './webhooks.ts';

type QueueConfig = { readonly name: string; readonly order?: 'fifo' | 'fair'; readonly paused?: boolean };

/** Everything that can be set, read once and never changed. */
export type Config = {
  readonly server: {
    readonly host: string;
    readonly port: number;
    readonly requestTimeoutMs: number;
    readonly maxInFlight: number;
    readonly trustProxy: boolean;
    readonly corsOrigins: readonly string[];
  };
  readonly database: {
    /** Null: the embedded server in `home`. */
    readonly url: string | null;
    readonly home: string;
    /** Null: as suits the process. */
    readonly apiPool: number | null;
    readonly workerPool: number | null;
  };
  readonly auth: { readonly keyLifetimeMs: number };
  readonly workers: {
    readonly concurrency: number | null;
    readonly queues: readonly string[];
    readonly drainGraceMs: number;
  };
  readonly simulation: { readonly timeScale: number };
  readonly limits: {
    readonly requestsPerMinute: number;
    readonly payloadBytes: number;
    readonly bodyBytes: number | null;
  };
  /** The policy that jobs start from: the sections [queue] and [retention]. */
  readonly profile: Policy;
  readonly execution: ExecutionSettings;
  readonly webhooks: WebhookSettings;
  readonly egress: EgressSettings;
  readonly queues: readonly QueueConfig[];
};

export type LoadedConfig = {
  readonly config: Config;
  /** The file that was read; null when there is none. */
  readonly file: string | null;
  /** Every value with its source, in the order of the reference. */
  readonly entries: Entries;
  /** What is odd, though nothing is wrong: to be told once. */
  readonly warnings: readonly string[];
};

export type LoadParams = {
  /** A file that was named must exist; otherwise MILLRACE_CONFIG, otherwise `millrace.toml` here if there is one. */
  readonly file?: string;
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly folder?: string;
  /** What the command line says, by full name; it wins over everything. */
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
  throw new AppError('INVALID_CONFIG', { message: `There is no file ${file}. Name one that exists.` });
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

function toConfig({ entries, queueNames }: Assembly, folder: string): Config {
  const get = <T>(name: string): T => entries.get(name)?.value as T;
  return deepFreeze({
    server: {
      host: get<string>('server.host'),
      port: get<number>('server.port'),
      requestTimeoutMs: get<number>('server.request_timeout'),
      maxInFlight: get<number>('server.max_in_flight'),
      trustProxy: get<boolean>('server.trust_proxy'),
      corsOrigins: get<string[]>('server.cors_origins'),
    },
    database: {
      url: get<string | null>('database.url'),
      home: resolve(folder, get<string>('database.home')),
      apiPool: get<number | null>('database.api_pool'),
      workerPool: get<number | null>('database.worker_pool'),
    },
    auth: { keyLifetimeMs: get<number>('auth.key_lifetime') },
    workers: {
      concurrency: get<number | null>('workers.concurrency'),
      queues: get<string[]>('workers.queues'),
      drainGraceMs: get<number>('workers.drain_grace'),
    },
    simulation: { timeScale: get<number>('simulation.time_scale') },
    limits: {
      requestsPerMinute: get<number>('limits.requests_per_minute'),
      payloadBytes: get<number>('limits.payload_size'),
      bodyBytes: get<number | null>('limits.body_size'),
    },
    profile: profileOf(get),
    execution: executionOf(get),
    webhooks: webhooksOf(get),
    egress: egressOf(get),
    queues: [...queueNames].map((name) => ({
      name,
      order: get<'fifo' | 'fair' | undefined>(`queues."${name}".order`),
      paused: get<boolean | undefined>(`queues."${name}".paused`),
    })),
  });
}

function profileOf(get: <T>(name: string) => T): Policy {
  const profile: Policy = {
    ...PROFILES.gopherqueue,
    timeoutMs: get<number>('queue.execution_timeout'),
    leaseMs: get<number>('queue.visibility_timeout'),
    lifetimeMs: get<number>('queue.lifetime'),
    maxAttempts: get<number>('queue.max_attempts'),
    keyWindowMs: get<number>('queue.idempotency_window'),
    retentionMs: get<number>('retention.jobs'),
  };
  const issues = checkPolicy(profile, profile);
  if (issues.length === 0) return profile;
  throw new AppError('INVALID_CONFIG', { message: issues.map(({ message }) => message).join('; '), details: issues });
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(value)) deepFreeze(member);
    Object.freeze(value);
  }
  return value;
}
