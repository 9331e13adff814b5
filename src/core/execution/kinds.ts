/** The job type of every job of the execution API. */
export const EXECUTION_TYPE = 'forgerun.simulated';

export const EXECUTION_TYPES = ['EXECUTE', 'DEFERRED', 'EMIT_EVENT'] as const;

export type ExecutionType = (typeof EXECUTION_TYPES)[number];

export const EXPECTED_OUTCOMES = ['SUCCEEDED', 'FAILED', 'CANCELED', 'REJECTED'] as const;

export type ExpectedOutcome = (typeof EXPECTED_OUTCOMES)[number];

/** What a client must do to make a job of this kind show its purpose. The simulator does it. */
export type Drive =
  | 'plain'
  | 'cancel_queued'
  | 'cancel_running'
  | 'retry_once'
  | 'retry_to_limit'
  | 'same_key'
  | 'other_key'
  | 'webhook'
  | 'deferred'
  | 'deferred_restart'
  | 'deferred_far'
  | 'rejected';

export type KindSpec = {
  readonly durationMs: number | 'over_max_runtime';
  readonly shouldFail: boolean;
  readonly payloadKb: number;
  /** How the job ends when the client does what `drive` says. */
  readonly expected: ExpectedOutcome;
  readonly failure: 'none' | 'temporary' | 'permanent' | 'timeout';
  /** The number of the last attempt that fails: 0 for none, Infinity for all. */
  readonly failsUntilAttempt: number;
  /** The work has this many equal parts and reports progress between them. */
  readonly steps: number;
  /** The output is written in this many pieces. */
  readonly outputs: number;
  readonly drive: Drive;
  readonly temper: 'success' | 'failure' | 'slow';
  readonly types: readonly ExecutionType[];
};

const plain: KindSpec = {
  durationMs: 2_000,
  shouldFail: false,
  payloadKb: 4,
  expected: 'SUCCEEDED',
  failure: 'none',
  failsUntilAttempt: 0,
  steps: 1,
  outputs: 1,
  drive: 'plain',
  temper: 'success',
  types: EXECUTION_TYPES,
};

const failing: KindSpec = {
  ...plain,
  shouldFail: true,
  expected: 'FAILED',
  failure: 'permanent',
  failsUntilAttempt: Number.POSITIVE_INFINITY,
  temper: 'failure',
};

const deferred: KindSpec = { ...plain, drive: 'deferred', types: ['DEFERRED'] };

/** The list of work kinds. The behaviour of a kind never depends on anything else. */
const CATALOGUE = {
  SUCCESS_FAST: { ...plain, durationMs: 1_000 },
  SUCCESS_NORMAL: { ...plain, durationMs: 10_000, payloadKb: 16, steps: 4 },
  SUCCESS_SLOW: { ...plain, durationMs: 90_000, payloadKb: 32, steps: 10, temper: 'slow' },
  FAIL_IMMEDIATE: { ...failing, durationMs: 500, payloadKb: 1 },
  FAIL_AFTER_PROGRESS: { ...failing, durationMs: 20_000, payloadKb: 8, steps: 4 },
  FAIL_AFTER_RETRYABLE: { ...failing, durationMs: 5_000, payloadKb: 8, failure: 'temporary' },
  RUNS_LONG: { ...plain, durationMs: 110_000, payloadKb: 32, steps: 10, temper: 'slow' },
  RUNS_OVER_TIMEOUT: { ...failing, durationMs: 'over_max_runtime', payloadKb: 8, failure: 'timeout' },
  CPU_BURST: { ...plain, durationMs: 8_000 },
  MEMORY_SPIKE: { ...plain, durationMs: 12_000, payloadKb: 64 },
  IO_HEAVY: { ...plain, durationMs: 15_000, payloadKb: 32, steps: 5 },
  MANY_SMALL_OUTPUTS: { ...plain, durationMs: 9_000, payloadKb: 16, outputs: 16 },
  LARGE_OUTPUT: { ...plain, durationMs: 9_000, payloadKb: 256 },
  CANCEL_BEFORE_START: { ...plain, durationMs: 5_000, expected: 'CANCELED', drive: 'cancel_queued' },
  CANCEL_DURING_RUN: { ...plain, durationMs: 10_000, expected: 'CANCELED', drive: 'cancel_running' },
  RETRY_ON_FAIL: {
    ...failing,
    durationMs: 3_000,
    expected: 'SUCCEEDED',
    failure: 'temporary',
    failsUntilAttempt: 1,
    drive: 'retry_once',
  },
  RETRY_LIMIT_REACHED: { ...failing, durationMs: 3_000, failure: 'temporary', drive: 'retry_to_limit' },
  DUPLICATE_SUBMIT_SAME_KEY: { ...plain, drive: 'same_key' },
  DUPLICATE_SUBMIT_DIFFERENT_KEY: { ...plain, drive: 'other_key' },
  WEBHOOK_SUCCESS: { ...plain, drive: 'webhook' },
  WEBHOOK_TIMEOUT: { ...plain, drive: 'webhook' },
  WEBHOOK_5XX: { ...plain, drive: 'webhook' },
  WEBHOOK_RETRIES_EXHAUSTED: { ...plain, drive: 'webhook' },
  WEBHOOK_SLOW_RECEIVER: { ...plain, drive: 'webhook' },
  SCHEDULED_ON_TIME: deferred,
  SCHEDULED_LATE_RECOVERY: { ...deferred, drive: 'deferred_restart' },
  SCHEDULED_FAR_FUTURE: { ...deferred, drive: 'deferred_far' },
  PAYLOAD_SMALL: { ...plain, payloadKb: 1 },
  PAYLOAD_MEDIUM: { ...plain, payloadKb: 16 },
  PAYLOAD_LARGE: { ...plain, payloadKb: 256 },
  PAYLOAD_INVALID: { ...plain, durationMs: 0, payloadKb: 0, expected: 'REJECTED', drive: 'rejected' },
} satisfies Record<string, KindSpec>;

export type WorkKind = keyof typeof CATALOGUE;

for (const spec of Object.values(CATALOGUE)) Object.freeze(spec);

export const KINDS: Readonly<Record<WorkKind, KindSpec>> = Object.freeze(CATALOGUE);

export const WORK_KINDS = Object.keys(CATALOGUE) as readonly WorkKind[];

export function isWorkKind(value: unknown): value is WorkKind {
  return typeof value === 'string' && Object.hasOwn(KINDS, value);
}

export function isExecutionType(value: unknown): value is ExecutionType {
  return (EXECUTION_TYPES as readonly unknown[]).includes(value);
}
