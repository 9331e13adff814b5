import { EXECUTION_TYPES } from '../core/execution/kinds.ts';
import { DEFAULT_MAX_PAYLOAD_BYTES, HIGHEST_MAX_PAYLOAD_BYTES } from '../core/payload.ts';
import { MAX_ATTEMPTS, PROFILES } from '../core/policy.ts';
import type { Kind, Value } from './values.ts';

export type Setting = {
  readonly kind: Kind;
  /** Null: not set. */
  readonly default: Value | null;
  readonly help: string;
  /** Masked wherever it is shown: the whole value, or the password of a URL. */
  readonly secret?: 'whole' | 'password';
  /** Other variables for this setting. MILLRACE_<SECTION>_<KEY> overrides them. */
  readonly variables?: readonly string[];
};

const SECOND = 1_000;
const DAY = 86_400_000;
const PROFILE = PROFILES.gopherqueue;
const EXECUTION = PROFILES.forgerun;

/** A hundred years. Statements subtract durations from now, and PostgreSQL has no dates before 4713 BC. */
const LONGEST = 36_500 * DAY;

const duration = (minMs = 1, maxMs = LONGEST): Kind => ({ type: 'duration', minMs, maxMs });
const integer = (min: number, max?: number): Kind => ({ type: 'integer', min, max });

/** Every setting, by section and key. */
const SETTINGS = {
  server: {
    host: { kind: { type: 'text' }, default: '127.0.0.1', help: 'the address to listen on' },
    port: {
      kind: integer(0, 65_535),
      default: 8484,
      help: 'the port to listen on; 0 takes a free one',
      variables: ['PORT'],
    },
    request_timeout: {
      kind: duration(10, 600 * SECOND),
      default: 15 * SECOND,
      help: 'the time limit for handling a request; a slower one is answered 503',
    },
    max_in_flight: { kind: integer(1), default: 1_000, help: 'concurrent requests; further ones are answered 503' },
    trust_proxy: {
      kind: { type: 'boolean' },
      default: false,
      help: 'trust the X-Forwarded headers of a reverse proxy',
    },
    cors_origins: {
      kind: { type: 'list' },
      default: [],
      help: 'origins whose web pages may call the API; none by default',
    },
  },
  database: {
    url: {
      kind: { type: 'text' },
      default: null,
      help: 'the PostgreSQL server to use; by default the embedded one',
      secret: 'password',
      variables: ['DATABASE_URL'],
    },
    home: {
      kind: { type: 'text' },
      default: '.millrace',
      help: 'the folder for the data of the embedded PostgreSQL and for the first API key',
      variables: ['MILLRACE_HOME'],
    },
    api_pool: {
      kind: integer(1, 1_000),
      default: null,
      help: 'database sessions for requests; by default 10, in a worker 1–2',
    },
    worker_pool: {
      kind: integer(1, 1_000),
      default: null,
      help: 'database sessions for jobs; by default 10, in a worker 1–2',
    },
  },
  auth: {
    key_lifetime: { kind: duration(SECOND, 3_650 * DAY), default: 90 * DAY, help: 'how long a new API key is valid' },
    registration: {
      kind: { type: 'text', choices: ['open', 'token'] },
      default: 'open',
      help: 'who may create clients under /v1 and issue their first keys: "open" is everyone, "token" requires the bootstrap token',
    },
    bootstrap_token: {
      kind: { type: 'text' },
      default: null,
      help: 'the token that `registration = "token"` requires',
      secret: 'whole',
    },
    open_calls_per_minute: {
      kind: integer(1),
      default: 60,
      help: 'requests without a key under /v1 from one address per minute; further ones are answered 429',
    },
  },
  workers: {
    concurrency: {
      kind: integer(1, 10_000),
      default: null,
      help: 'concurrent jobs of a process; `millrace up` applies it to jobs of /v1 and to all others separately; by default 1 in `millrace work` and 10 in `millrace up`',
    },
    queues: {
      kind: { type: 'list', needsOne: true },
      default: ['*'],
      help: 'the queues to work on; "*" means all',
    },
    drain_grace: { kind: duration(0), default: 30 * SECOND, help: 'how long running jobs may continue after a stop' },
  },
  simulation: {
    time_scale: {
      kind: { type: 'number', above: 0, max: 1_000 },
      default: 1,
      help: 'the factor for simulated durations',
    },
    failure_probability: {
      kind: { type: 'number', min: 0, max: 1 },
      default: 0.1,
      help: 'the probability of a failing work kind when a submission under /v1 has no work kind',
    },
    allowed_types: {
      kind: { type: 'list', choices: EXECUTION_TYPES },
      default: EXECUTION_TYPES,
      help: 'the job types that /v1 accepts',
    },
  },
  limits: {
    requests_per_minute: {
      kind: integer(1),
      default: 600,
      help: 'requests of an org per minute; further ones are answered 429',
    },
    payload_size: {
      kind: { type: 'size', maxBytes: HIGHEST_MAX_PAYLOAD_BYTES },
      default: DEFAULT_MAX_PAYLOAD_BYTES,
      help: 'the largest payload of a job',
    },
    body_size: {
      kind: { type: 'size', maxBytes: 1_073_741_824 },
      default: null,
      help: 'the largest body of a request; by default 256KB under /v1 and 32MB elsewhere',
    },
    quota: {
      kind: integer(0, 2_147_483_647),
      default: 0,
      help: 'requests of a client under /v1 per UTC day; further ones are answered 429; 0 means no limit',
    },
    queue_size: {
      kind: integer(1, 1_000_000_000),
      default: 100_000,
      help: 'jobs that may wait for a worker, for /v1 and /queue separately; further ones are answered 503 and 429',
    },
    active_jobs: {
      kind: integer(1, 1_000_000),
      default: 1_000,
      help: 'concurrent jobs of /v1 over all workers; further ones wait',
    },
  },
  queue: {
    execution_timeout: {
      kind: duration(),
      default: PROFILE.timeoutMs,
      help: 'how long an attempt may run; also the longest timeout of a submission',
    },
    visibility_timeout: {
      kind: duration(SECOND, DAY),
      default: PROFILE.leaseMs,
      help: 'how long a frozen or unreachable worker may miss heartbeats before others take its jobs; a dead one is noticed in seconds',
    },
    lifetime: {
      kind: duration(),
      default: PROFILE.lifetimeMs,
      help: 'a job that has not ended after this time becomes a dead letter',
    },
    max_attempts: { kind: integer(1, MAX_ATTEMPTS), default: PROFILE.maxAttempts, help: 'attempts of a job' },
    idempotency_window: {
      kind: duration(),
      default: PROFILE.keyWindowMs,
      help: 'how long an idempotency key is remembered',
    },
  },
  execution: {
    max_runtime: {
      kind: duration(1, 30 * DAY),
      default: EXECUTION.timeoutMs,
      help: 'how long an attempt of a job of /v1 may run, multiplied by `simulation.time_scale`',
    },
    max_retries: {
      kind: integer(0, MAX_ATTEMPTS - 1),
      default: EXECUTION.maxAttempts - 1,
      help: 'how often a failed job of /v1 may be retried',
    },
    backoff_base: {
      kind: duration(0, 30 * DAY),
      default: EXECUTION.backoff.initialDelayMs,
      help: 'the wait before the first retry; it doubles with each retry',
    },
    backoff_max: {
      kind: duration(0, 30 * DAY),
      default: EXECUTION.backoff.maxDelayMs,
      help: 'the longest wait before a retry',
    },
    lease: {
      kind: duration(SECOND, DAY),
      default: EXECUTION.leaseMs,
      help: 'how long a frozen or unreachable worker may miss heartbeats before its jobs of /v1 count as lost',
    },
    heartbeat: {
      kind: duration(100, DAY),
      default: 5 * SECOND,
      help: 'how often a worker sends a heartbeat; at most half of the lease',
    },
    auto_retry: {
      kind: { type: 'boolean' },
      default: EXECUTION.autoRetry,
      help: 'retry failures automatically unless they are permanent',
    },
    hide_foreign_jobs: {
      kind: { type: 'boolean' },
      default: false,
      help: 'return 404 instead of 403 for a job of another client',
    },
    duplicate_window: {
      kind: duration(0, 30 * DAY),
      default: 0,
      help: 'how long an equal submission without a key counts as a repeat; 0 means never',
    },
  },
  webhooks: {
    timeout: {
      kind: duration(100, 600 * SECOND),
      default: 10 * SECOND,
      help: 'the time limit for one webhook request, including its response',
    },
    max_retries: {
      kind: integer(0, 20),
      default: 5,
      help: 'how often a failed webhook request is retried',
    },
    backoff_base: {
      kind: duration(1, 30 * DAY),
      default: SECOND,
      help: 'the wait before the first retry; it doubles with each retry',
    },
    backoff_max: { kind: duration(1, 30 * DAY), default: 300 * SECOND, help: 'the longest wait before a retry' },
    concurrency: {
      kind: integer(2, 10_000),
      default: 256,
      help: 'concurrent webhook requests of a process; at least half are reserved for endpoints whose last request succeeded',
    },
    disable_after: {
      kind: duration(SECOND, 3_650 * DAY),
      default: 5 * DAY,
      help: 'a webhook whose requests all failed for this long is disabled',
    },
    secret_overlap: {
      kind: duration(0, 365 * DAY),
      default: DAY,
      help: 'how long the old secret still signs after a rotation',
    },
  },
  egress: {
    allow: {
      kind: { type: 'list', of: 'range' },
      default: [],
      help: 'non-public addresses that may be called: "10.1.0.0/16", "::1"',
    },
    targets: {
      kind: { type: 'list', of: 'local endpoint' },
      default: [],
      help: 'endpoints on this machine that may be called: "127.0.0.1:9000"; only if `server.host` is a loopback address',
    },
    connect_timeout: {
      kind: duration(100, 600 * SECOND),
      default: 10 * SECOND,
      help: 'the time limit for connecting to a URL of a user',
    },
    dns_timeout: {
      kind: duration(100, 600 * SECOND),
      default: 5 * SECOND,
      help: 'the time limit for resolving its host name',
    },
  },
  retention: {
    jobs: { kind: duration(0), default: PROFILE.retentionMs, help: 'how long a job is kept after it has ended' },
    revoked_keys: { kind: duration(0), default: 90 * DAY, help: 'how long a revoked API key is remembered' },
  },
} as const satisfies Record<string, Record<string, Setting>>;

/** The settings of one queue, `[queues."name"]`. */
export const QUEUE_SETTINGS = {
  order: {
    kind: { type: 'text', choices: ['fifo', 'fair'] },
    default: null,
    help: '"fifo": by priority and order of submission over all orgs; "fair": orgs take turns',
  },
  paused: { kind: { type: 'boolean' }, default: null, help: 'no job of the queue starts while it is paused' },
} as const satisfies Record<string, Setting>;

export type Section = keyof typeof SETTINGS;

export const SECTIONS = Object.keys(SETTINGS) as Section[];

export const settingsOf = (section: Section): Readonly<Record<string, Setting>> => SETTINGS[section];
