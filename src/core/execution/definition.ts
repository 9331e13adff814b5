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
/** How much longer than the runtime limit a kind runs that is meant to time out. */
const OVER_RUNTIME_MS = 1_000;

/** The work of a job of the execution API. It is generated at submission and never changes. */
export type ExecutionDefinition = {
  readonly type: ExecutionType;
  readonly work_kind: WorkKind;
  readonly duration_ms: number;
  readonly should_fail: boolean;
  /** In bytes. */
  readonly payload_size: number;
  /** The time of the request in milliseconds. It seeds the random choice of the work kind. */
  readonly seed: number;
  readonly execution_at: string | null;
  readonly expected_outcome: ExpectedOutcome;
};

/** The payload of a job: its definition and the trace that its submission belongs to. */
export type ExecutionPayload = ExecutionDefinition & { readonly traceparent?: string };

export type GenerateParams = {
  readonly type: ExecutionType;
  readonly seedMs: number;
  readonly workKind?: WorkKind;
  readonly executionAt?: Date | null;
  readonly failureProbability: number;
  readonly maxRuntimeMs: number;
};

/** Deterministic: the same request at the same time gives the same definition. */
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

/** Decides by the configured probability whether the job fails, then picks a kind with equal chances. */
function drawKind({ type, seedMs, failureProbability }: GenerateParams): WorkKind {
  const random = mulberry32(seedMs);
  const isFailing = random() < failureProbability;
  const kinds = WORK_KINDS.filter((kind) => isDrawn(kind, type) && KINDS[kind].shouldFail === isFailing);
  return kinds[Math.floor(random() * kinds.length)] as WorkKind;
}

// Kinds that are always rejected or always time out run only when a request names them.
function isDrawn(kind: WorkKind, type: ExecutionType): boolean {
  const { durationMs, expected, types } = KINDS[kind];
  return durationMs !== 'over_max_runtime' && expected !== 'REJECTED' && types.includes(type);
}

/** The mulberry32 generator has 32 bits of state, so the upper bits of the seed are folded into it. */
export function mulberry32(seed: number): () => number {
  let state = (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Whether a payload is a complete definition. Handlers refuse any other payload. */
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
