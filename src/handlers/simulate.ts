import { setTimeout as delay } from 'node:timers/promises';
import { PermanentError, TemporaryError } from '../core/handler-errors.ts';
import { SIMULATE_TYPE, type SimulationBounds, WIDEST_SIMULATION } from '../core/simulation.ts';
import type { Submission } from '../core/submission.ts';
import { type SimulatedFailure, type SimulatePayload, simulateSchema } from './simulate-payload.ts';

/** The part of the handler context that the work needs. */
type SimulateContext = {
  readonly jobId: string;
  readonly attempt: number;
  readonly signal: AbortSignal;
  reportProgress(percent: number, message?: string): Promise<void>;
  checkpoint(state: unknown): Promise<void>;
  lastCheckpoint(): Promise<unknown>;
  spawn(submission: Submission, options: { join: boolean }): Promise<string>;
};

export type SimulateOptions = {
  /** The factor for durations: 0.1 turns ten seconds into one. */
  timeScale?: number;
  /** Whether CRASH may kill this process. Only for processes that run nothing but simulated jobs. */
  allowCrash?: boolean;
  /** A job that asks for more fails. */
  bounds?: SimulationBounds;
};

type SimulateResult = Uint8Array | { attempt: number; steps: number; children: string[] };

/** The default number of steps of a job with checkpoints. */
const CHECKPOINT_STEPS = 10;
/** The longest timer of Node. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** The registration of the built-in job type. */
export function simulateRegistration(options: SimulateOptions = {}) {
  const { timeScale = 1, allowCrash = false, bounds = WIDEST_SIMULATION } = options;
  return {
    type: SIMULATE_TYPE,
    schema: simulateSchema(bounds),
    // The schema has checked the payload.
    handler: (context: SimulateContext, payload: unknown) => simulate(context, payload as SimulatePayload, { timeScale, allowCrash }),
  };
}

/** One attempt: starts the children, works through the steps, then succeeds or fails as requested. */
async function simulate(
  context: SimulateContext,
  payload: SimulatePayload,
  { timeScale, allowCrash }: Required<Pick<SimulateOptions, 'timeScale' | 'allowCrash'>>,
): Promise<SimulateResult> {
  const children = await spawnChildren(context, payload);
  const steps = payload.progress_steps ?? (payload.checkpoint ? CHECKPOINT_STEPS : 1);
  const done = payload.checkpoint ? await stepsDone(context, steps) : 0;
  const fails = payload.failure !== undefined && context.attempt <= (payload.fail_times ?? Number.POSITIVE_INFINITY);
  // A failing attempt completes half of the remaining steps, so that the next one can use its checkpoint.
  const last = fails ? done + Math.ceil((steps - done) / 2) : steps;
  const stepMs = (payload.duration_ms * timeScale) / steps;
  for (let step = done + 1; step <= last; step++) {
    await pause(stepMs, context.signal);
    if (payload.checkpoint) await context.checkpoint({ step });
    if (payload.progress_steps !== undefined) {
      await context.reportProgress((step / steps) * 100, `step ${step} of ${steps}`);
    }
  }
  if (fails) await FAILURES[payload.failure as SimulatedFailure](context, allowCrash);
  if (payload.output_bytes !== undefined) return bytes(payload.output_bytes);
  return { attempt: context.attempt, steps: last - done, children };
}

/** Each child has an idempotency key, so that a later attempt does not start it again. */
async function spawnChildren(context: SimulateContext, payload: SimulatePayload): Promise<string[]> {
  const { count = 0, join = false } = payload.spawn ?? {};
  const children: string[] = [];
  for (let number = 1; number <= count; number++) {
    const idempotencyKey = `${SIMULATE_TYPE}:${context.jobId}:${number}`;
    const child: SimulatePayload = { duration_ms: payload.duration_ms };
    children.push(await context.spawn({ type: SIMULATE_TYPE, payload: child, idempotencyKey }, { join }));
  }
  return children;
}

async function stepsDone(context: SimulateContext, steps: number): Promise<number> {
  const stored = (await context.lastCheckpoint()) as { step: number } | null;
  return Math.min(stored?.step ?? 0, steps);
}

/** Each throws or never returns. */
const FAILURES: Record<SimulatedFailure, (context: SimulateContext, allowCrash: boolean) => Promise<never>> = {
  async TEMPORARY({ attempt }) {
    throw new TemporaryError(`attempt ${attempt} failed, as the payload requires`, { code: 'SIMULATED_TEMPORARY' });
  },
  async PERMANENT({ attempt }) {
    throw new PermanentError(`attempt ${attempt} failed permanently, as the payload requires`, {
      code: 'SIMULATED_PERMANENT',
    });
  },
  async TIMEOUT({ signal }) {
    for (;;) await pause(LONGEST_WAIT_MS, signal);
  },
  async CRASH({ signal }, allowCrash) {
    if (!allowCrash) {
      throw new TemporaryError('this worker does not allow simulated crashes: start it with allowCrash', {
        code: 'SIMULATED_CRASH_REFUSED',
      });
    }
    process.kill(process.pid, 'SIGKILL');
    for (;;) await pause(LONGEST_WAIT_MS, signal);
  },
};

/** Rejects with the abort reason when the attempt is stopped. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (ms <= 0) return;
  await delay(Math.min(ms, LONGEST_WAIT_MS), undefined, { signal }).catch(() => signal.throwIfAborted());
}

/** A fixed pseudo-random sequence (xorshift). */
function bytes(count: number): Uint8Array {
  const made = new Uint8Array(count);
  let state = 0x9e3779b9;
  for (let at = 0; at < count; at++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    made[at] = state;
  }
  return made;
}
