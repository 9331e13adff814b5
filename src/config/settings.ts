import { DEFAULT_ARTIFACT_BYTES, DEFAULT_ARTIFACT_RETENTION_MS } from '../core/artifact.ts';
import { MAX_CHILDREN } from '../core/dependencies.ts';
import { lookUp } from '../core/dictionary.ts';
import { EXECUTION_TYPES } from '../core/execution/kinds.ts';
import { DEFAULT_ORG_SHARE } from '../core/fair-share.ts';
import { DEFAULT_MAX_PAYLOAD_BYTES, DEFAULT_MAX_RESULT_BYTES, HIGHEST_MAX_PAYLOAD_BYTES } from '../core/payload.ts';
import { MAX_ATTEMPTS, PROFILES } from '../core/policy.ts';
import { ALERT_SECTIONS } from './alert-settings.ts';
import { CATEGORY_SETTINGS } from './category-settings.ts';
import { INGEST_SECTIONS, JOB_TYPE_SETTINGS, PROXY_SETTINGS } from './ingest-settings.ts';
import { QUEUE_SETTINGS } from './queue-settings.ts';
import { BOOLEAN, DAY, duration, integer, LIST, SECOND, type Setting, setting, TEXT } from './setting.ts';

export type { Setting } from './setting.ts';

const PROFILE = PROFILES.gopherqueue;
const EXECUTION = PROFILES.forgerun;
// As in `telemetry/log.ts`, which this room may not import.
const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'off'];

/** Every setting, by section and key. */
const SETTINGS = {
  server: {
    host: setting(TEXT, '127.0.0.1', 'the address to listen on'),
    port: setting(integer(0, 65_535), 8484, 'the port to listen on; 0 takes a free one', { variables: ['PORT'] }),
    request_timeout: setting(
      duration(10, 600 * SECOND),
      15 * SECOND,
      'the time limit for handling a request; after that the server returns 503',
    ),
    max_in_flight: setting(integer(1), 1_000, 'concurrent requests; beyond that the server returns 503'),
    body_memory: setting(
      { type: 'size', maxBytes: 1_099_511_627_776 },
      null,
      'the memory for the bodies of all requests; beyond that the server returns 503; by default 96MB, or three times the largest body',
    ),
    min_upload_rate: setting(
      { type: 'size', maxBytes: 1_073_741_824 },
      8_192,
      'the bytes per second at which a body must arrive on average; a slower connection is closed after 5s',
    ),
    trust_proxy: setting(
      { type: 'proxies' },
      false,
      'the reverse proxies whose X-Forwarded headers are trusted: how many there are, or their addresses and ranges',
    ),
    allowed_hosts: setting(
      { type: 'list', of: 'host name' },
      [],
      'the names by which clients reach the server, in addition to `localhost` and IP addresses; "*" means every name',
    ),
    cors_origins: setting(LIST, [], 'origins whose web pages may call the API; none by default'),
  },
  database: {
    url: setting(TEXT, null, 'the PostgreSQL server to use; by default the embedded one', {
      secret: 'password',
      variables: ['DATABASE_URL'],
    }),
    home: setting(TEXT, '.millrace', 'the folder for the data of the embedded PostgreSQL and for the first API key', {
      variables: ['MILLRACE_HOME'],
    }),
    api_pool: setting(integer(1, 1_000), null, 'database sessions for requests; by default 10, in a worker 1–2'),
    worker_pool: setting(integer(1, 1_000), null, 'database sessions for jobs; by default 10, in a worker 1–2'),
  },
  auth: {
    key_lifetime: setting(duration(SECOND, 3_650 * DAY), 90 * DAY, 'how long a new API key is valid'),
    registration: setting(
      { type: 'text', choices: ['open', 'token'] },
      'open',
      'who may create clients under /v1 and issue their first keys: "open" is everyone, "token" requires the bootstrap token',
    ),
    bootstrap_token: setting(
      { type: 'text', minLength: 16 },
      null,
      'the token that `registration = "token"` requires; at least 16 characters',
      { secret: 'whole' },
    ),
    allow_open: setting(
      BOOLEAN,
      false,
      'start with `registration = "open"` on an address other than loopback; everyone who reaches the server can then use /v1',
    ),
    open_calls_per_minute: setting(
      integer(1),
      60,
      'requests without a key under /v1 from one address per minute; beyond that the server returns 429',
    ),
  },
  workers: {
    concurrency: setting(
      integer(1, 10_000),
      null,
      'concurrent jobs of a process; `millrace up` applies it to jobs of /v1 and to all others separately; by default 1 in `millrace work`, and 200 for /v1 and 10 for all others in `millrace up`',
    ),
    reserve: setting(
      integer(0, 50),
      10,
      'the percentage of the slots of each worker, at least one slot, that only an org may take of which the worker runs no job, or less than half of an equal share; none for workers with fewer than 4 slots, and while there is one org',
    ),
    queues: setting({ type: 'list', needsOne: true }, ['*'], 'the queues to work on; "*" means all'),
    drain_grace: setting(duration(0), 30 * SECOND, 'how long running jobs may continue after a stop'),
    exit_when_blocked: setting(
      BOOLEAN,
      true,
      'end the process when a handler blocks its event loop past the timeout; if false, its jobs only return to the queue',
    ),
  },
  simulation: {
    time_scale: setting({ type: 'number', above: 0, max: 1_000 }, 1, 'the factor for simulated durations'),
    failure_probability: setting(
      { type: 'number', min: 0, max: 1 },
      0.1,
      'the probability of a failing work kind when a submission under /v1 has no work kind',
    ),
    allowed_types: setting({ type: 'list', choices: EXECUTION_TYPES }, EXECUTION_TYPES, 'the job types that /v1 accepts'),
    max_duration: setting(duration(0, DAY), 300 * SECOND, 'the longest duration_ms of a job of the type simulate'),
    max_output: setting(
      { type: 'size', maxBytes: DEFAULT_MAX_RESULT_BYTES },
      65_536,
      'the largest output_bytes of a job of the type simulate',
    ),
    max_children: setting(integer(0, MAX_CHILDREN), 100, 'the most jobs that a job of the type simulate may spawn'),
  },
  telemetry: {
    log_level: setting(
      { type: 'text', choices: LOG_LEVELS },
      null,
      'the least level of log lines on standard error: debug, info, warn, error or off; by default info, on a terminal warn, with --verbose debug',
    ),
    log_format: setting(
      { type: 'text', choices: ['json', 'text'] },
      null,
      'how log lines are written; by default json, and text on a terminal',
    ),
    log_limit: setting(
      integer(0, 1_000_000),
      1_000,
      'the most log lines of a kind in a second; a line then says how many were dropped; 0 means no limit',
    ),
    otlp_endpoint: setting(
      { type: 'text', form: 'web address' },
      null,
      'a collector that takes traces as OTLP over HTTP, for example `http://127.0.0.1:4318`; none by default',
    ),
    trace_sample: setting(
      { type: 'number', min: 0, max: 1 },
      1,
      'the part of new traces that is recorded, from 0 to 1; a trace that a caller began keeps its own decision',
    ),
  },
  limits: {
    requests_per_minute: setting(integer(1), 600, 'requests of an org per minute; beyond that the server returns 429'),
    payload_size: setting({ type: 'size', maxBytes: HIGHEST_MAX_PAYLOAD_BYTES }, DEFAULT_MAX_PAYLOAD_BYTES, 'the largest payload of a job'),
    result_size: setting({ type: 'size', maxBytes: HIGHEST_MAX_PAYLOAD_BYTES }, DEFAULT_MAX_RESULT_BYTES, 'the largest result of a job'),
    body_size: setting(
      { type: 'size', maxBytes: 1_073_741_824 },
      null,
      'a lower limit for the body of every request; by default 32MB for a batch, three times `payload_size` for a job, and 256KB for others',
    ),
    quota: setting(
      integer(0, 2_147_483_647),
      0,
      'requests of a client under /v1 per UTC day; beyond that the server returns 429; 0 means no limit',
    ),
    queue_size: setting(
      integer(1, 1_000_000_000),
      100_000,
      'jobs that may wait for a worker, for /v1 and /queue separately; beyond that the server returns 503 under /v1 and 429 under /queue',
    ),
    org_share: setting(
      { type: 'number', above: 0, max: 1 },
      DEFAULT_ORG_SHARE,
      'the part of `queue_size`, `stored_size`, `server.max_in_flight`, event streams and searches that one org may fill; beyond it an org gets an eighth of what stays free; 1 lets one org fill everything',
    ),
    stored_size: setting(
      { type: 'size', maxBytes: 1_125_899_906_842_624 },
      53_687_091_200,
      'what the jobs of all orgs may take in the database, waiting or finished; beyond the share of an org the server returns 429',
    ),
    active_jobs: setting(integer(1, 1_000_000), 1_000, 'concurrent jobs of /v1 over all workers; further ones wait'),
  },
  queue: {
    execution_timeout: setting(duration(), PROFILE.timeoutMs, 'how long an attempt may run; also the longest timeout of a submission'),
    visibility_timeout: setting(
      duration(SECOND, DAY),
      PROFILE.leaseMs,
      'how long a frozen or unreachable worker may miss heartbeats before others take its jobs; a dead one is noticed in seconds',
    ),
    lifetime: setting(duration(), PROFILE.lifetimeMs, 'a job that has not ended after this time becomes a dead letter'),
    max_attempts: setting(integer(1, MAX_ATTEMPTS), PROFILE.maxAttempts, 'attempts of a job'),
    idempotency_window: setting(duration(), PROFILE.keyWindowMs, 'how long an idempotency key is remembered'),
  },
  execution: {
    max_runtime: setting(
      duration(1, 30 * DAY),
      EXECUTION.timeoutMs,
      'how long an attempt of a job of /v1 may run, multiplied by `simulation.time_scale`',
    ),
    max_retries: setting(integer(0, MAX_ATTEMPTS - 1), EXECUTION.maxAttempts - 1, 'how often a failed job of /v1 may be retried'),
    backoff_base: setting(
      duration(0, 30 * DAY),
      EXECUTION.backoff.initialDelayMs,
      'the wait before the first retry; it doubles with each retry',
    ),
    backoff_max: setting(duration(0, 30 * DAY), EXECUTION.backoff.maxDelayMs, 'the longest wait before a retry'),
    lease: setting(
      duration(SECOND, DAY),
      EXECUTION.leaseMs,
      'how long a frozen or unreachable worker may miss heartbeats before its jobs of /v1 count as lost',
    ),
    heartbeat: setting(duration(100, DAY), 5 * SECOND, 'how often a worker sends a heartbeat; at most half of the lease'),
    auto_retry: setting(BOOLEAN, EXECUTION.autoRetry, 'retry failures automatically unless they are permanent'),
    hide_foreign_jobs: setting(BOOLEAN, false, 'return 404 instead of 403 for a job of another client'),
    duplicate_window: setting(duration(0, 30 * DAY), 0, 'how long an equal submission without a key counts as a repeat; 0 means never'),
  },
  webhooks: {
    timeout: setting(duration(100, 600 * SECOND), 10 * SECOND, 'the time limit for one webhook request, including its response'),
    max_retries: setting(integer(0, 20), 5, 'how often a failed webhook request is retried'),
    backoff_base: setting(duration(1, 30 * DAY), SECOND, 'the wait before the first retry; it doubles with each retry'),
    backoff_max: setting(duration(1, 30 * DAY), 300 * SECOND, 'the longest wait before a retry'),
    concurrency: setting(
      integer(2, 10_000),
      256,
      'concurrent webhook requests of a process; at least half are reserved for endpoints whose last request succeeded',
    ),
    disable_after: setting(duration(SECOND, 3_650 * DAY), 5 * DAY, 'a webhook whose requests all failed for this long is disabled'),
    secret_overlap: setting(duration(0, 365 * DAY), DAY, 'how long messages also carry a signature from the old secret after a rotation'),
    verify: setting(BOOLEAN, true, 'send the first event of an org to a webhook only after it accepted a test message with 2xx'),
    host_rate: setting(integer(1, 1_000_000), 50, 'webhook requests to one host per second, over all orgs; further ones wait'),
  },
  egress: {
    allow: setting({ type: 'list', of: 'range' }, [], 'non-public addresses that may be called: "10.1.0.0/16", "::1"'),
    targets: setting(
      { type: 'list', of: 'local endpoint' },
      [],
      'endpoints on this machine that may be called: "127.0.0.1:9000"; only if `server.host` is a loopback address',
    ),
    connect_timeout: setting(duration(100, 600 * SECOND), 10 * SECOND, 'the time limit for connecting to a URL of a user'),
    dns_timeout: setting(duration(100, 600 * SECOND), 5 * SECOND, 'the time limit for resolving its host name'),
  },
  retention: {
    jobs: setting(duration(0), PROFILE.retentionMs, 'how long a job is kept after it has ended'),
    dead_letters: setting(duration(0), 90 * DAY, 'how long an entry of the dead letter is kept; an open one keeps its job'),
    revoked_keys: setting(duration(0), 90 * DAY, 'how long a revoked API key is remembered'),
    tasks: setting(
      duration(0),
      7 * DAY,
      'how long a download of an ingest job is kept after it has ended, and an entry of the stream jobs.tasks',
    ),
    ledger: setting(duration(0), null, 'how long an ingest job is kept after its last download has ended; by default as long as `jobs`'),
    ledger_size: setting(
      { type: 'size', maxBytes: 1_125_899_906_842_624 },
      5_368_709_120,
      'what ingest jobs may take in the database, about; beyond that the ones that ended first are removed',
    ),
    logs: setting(duration(0), 30 * DAY, 'how long a line of the stream jobs.logs is kept'),
    deadletter: setting(duration(0), 90 * DAY, 'how long an entry of the stream jobs.dlq is kept'),
    audit: setting(duration(0), 365 * DAY, 'how long a row of the audit trail is kept'),
    alerts: setting(duration(0), 90 * DAY, 'how long an alert is kept after it was last raised'),
  },
  audit: {
    jobs: setting(
      { type: 'text', choices: ['governed', 'all'] },
      'governed',
      'the jobs whose own events are in the audit trail: those with one of the five categories, or all; requested actions always are',
    ),
  },
  deadletter: {
    undo_window: setting(duration(0), DAY, 'how long a discard, and an operation that has ended, can be undone'),
  },
  artifacts: {
    max_size: setting({ type: 'size', maxBytes: 1_125_899_906_842_624 }, DEFAULT_ARTIFACT_BYTES, 'the largest artifact'),
    retention: setting(duration(SECOND, 3_650 * DAY), DEFAULT_ARTIFACT_RETENTION_MS, 'how long an artifact is kept'),
    bucket: setting({ type: 'text', form: 'bucket' }, null, 'the bucket of artifacts; by default `ingest.bucket`'),
  },
  ...INGEST_SECTIONS,
  ...ALERT_SECTIONS,
} as const satisfies Record<string, Record<string, Setting>>;

export type Section = keyof typeof SETTINGS;

export const SECTIONS = Object.keys(SETTINGS) as Section[];

/** Sections with a table for each name that the file gives. */
const TABLES: Readonly<Record<string, Readonly<Record<string, Setting>>>> = {
  queues: QUEUE_SETTINGS,
  job_types: JOB_TYPE_SETTINGS,
  proxies: PROXY_SETTINGS,
  categories: CATEGORY_SETTINGS,
};

/** The setting of an entry, by its full name: `server.port`, `queues."q:mail".order`, `job_types."gallery".proxy.primary`. */
export function settingNamed(name: string): Setting {
  const [section, key] = [name.slice(0, name.indexOf('.')), name.slice(name.lastIndexOf('.') + 1)];
  const settings = lookUp(TABLES, section) ?? settingsOf(section as Section);
  const found = Object.entries(settings).find(([known]) => known === key || known.endsWith(`.${key}`));
  return (found as [string, Setting])[1];
}

export const settingsOf = (section: Section): Readonly<Record<string, Setting>> => SETTINGS[section];
