import { formatTimestamp } from '../timestamp.ts';
import {
  EXPECTED_OUTCOMES,
  type ExecutionType,
  type ExpectedOutcome,
  isExecutionType,
  isWorkKind,
  KINDS,
  WORK_KINDS,
  type WorkKind,
} from './kinds.ts';

const KIBIBYTE = 1_024;
/** How far past the longest runtime a kind runs that must meet it. */
const OVER_RUNTIME_MS = 1_000;

/** What a job of the execution API is to do, generated once at submission and kept for life. */
export type ExecutionDefinition = {
  readonly type: ExecutionType;
  readonly work_kind: WorkKind;
  readonly duration_ms: number;
  readonly should_fail: boolean;
  /** In bytes. */
  readonly payload_size: number;
  /** The request's time in milliseconds, from which everything random was drawn. */
  readonly seed: number;
  /** What was asked for; null for a job that is due at once. */
  readonly execution_at: string | null;
  readonly expected_outcome: ExpectedOutcome;
};

/** The definition as the job carries it, with the trace it belongs to. */
export type ExecutionPayload = ExecutionDefinition & { readonly traceparent?: string };

export type GenerateParams = {
  readonly type: ExecutionType;
  readonly seedMs: number;
  readonly workKind?: WorkKind;
  readonly executionAt?: Date | null;
  readonly failureProbability: number;
  readonly maxRuntimeMs: number;
};

/** The same time and the same request always give the same definition. */
export function generateDefinition(params: GenerateParams): ExecutionDefinition {
  const { type, seedMs, executionAt, maxRuntimeMs } = params;
  const kind = params.workKind ?? drawKind(params);
  const { durationMs, shouldFail, payloadKb, expected } = KINDS[kind];
  return {
    type,
    work_kind: kind,
    duration_ms: durationMs === 'over_max_runtime' ? maxRuntimeMs + OVER_RUNTIME_MS : durationMs,
    should_fail: shouldFail,
    payload_size: payloadKb * KIBIBYTE,
    seed: seedMs,
    execution_at: executionAt == null ? null : formatTimestamp(executionAt),
    expected_outcome: expected,
  };
}

/** Failing or not by the configured probability, then every kind that can be drawn with the same chance. */
function drawKind({ type, seedMs, failureProbability }: GenerateParams): WorkKind {
  const random = mulberry32(seedMs);
  const isFailing = random() < failureProbability;
  const kinds = WORK_KINDS.filter((kind) => isDrawn(kind, type) && KINDS[kind].shouldFail === isFailing);
  return kinds[Math.floor(random() * kinds.length)] as WorkKind;
}

// A kind outside the fixed bounds, rejected or longer than allowed, comes only by name.
function isDrawn(kind: WorkKind, type: ExecutionType): boolean {
  const { durationMs, expected, types } = KINDS[kind];
  return durationMs !== 'over_max_runtime' && expected !== 'REJECTED' && types.includes(type);
}

/** A small generator with 32 bits of state; the upper half of the seed is folded in, so that every bit counts. */
export function mulberry32(seed: number): () => number {
  let state = (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Whether a job's payload is a whole definition; anything else must not be run. */
export function isExecutionPayload(value: unknown): value is ExecutionPayload {
  if (typeof value !== 'object' || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return (
    isExecutionType(given.type) &&
    isWorkKind(given.work_kind) &&
    isCount(given.duration_ms) &&
    typeof given.should_fail === 'boolean' &&
    isCount(given.payload_size) &&
    isCount(given.seed) &&
    (given.execution_at === null || typeof given.execution_at === 'string') &&
    (EXPECTED_OUTCOMES as readonly unknown[]).includes(given.expected_outcome) &&
    (given.traceparent === undefined || typeof given.traceparent === 'string')
  );
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
