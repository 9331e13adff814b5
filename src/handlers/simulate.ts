import { setTimeout as delay } from 'node:timers/promises';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { PermanentError, TemporaryError } from '../core/handler-errors.ts';
import type { Submission } from '../core/submission.ts';
import { type SimulatedFailure, type SimulatePayload, simulatePayload } from './simulate-payload.ts';

/** What the work needs of the context that handlers are given. */
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
  /** Durations are multiplied by this: 0.1 makes ten seconds one. */
  timeScale?: number;
  /** Whether CRASH may kill this process. Not where it does more than run simulated jobs. */
  allowCrash?: boolean;
};

type SimulateResult = Uint8Array | { attempt: number; steps: number; children: string[] };

/** A registration of the built-in type, in the shape that the engine's registry takes. */
export type SimulateRegistration = {
  type: typeof SIMULATE_TYPE;
  schema: StandardSchemaV1<unknown, SimulatePayload>;
  handler: (context: SimulateContext, payload: unknown) => Promise<SimulateResult>;
};

export const SIMULATE_TYPE = 'simulate';

/** Steps to remember when a job wants checkpoints and does not say how many. */
const CHECKPOINT_STEPS = 10;
/** The longest that a timer of Node can wait. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

export function simulateRegistration(options: SimulateOptions = {}): SimulateRegistration {
  const { timeScale = 1, allowCrash = false } = options;
  return {
    type: SIMULATE_TYPE,
    schema: simulatePayload,
    // The schema has checked it by now.
    handler: (context, payload) => simulate(context, payload as SimulatePayload, { timeScale, allowCrash }),
  };
}

/** One attempt: starts its children, works its steps, then succeeds or fails as it was told. */
async function simulate(
  context: SimulateContext,
  payload: SimulatePayload,
  { timeScale, allowCrash }: Required<SimulateOptions>,
): Promise<SimulateResult> {
  const children = await spawnChildren(context, payload);
  const steps = payload.progress_steps ?? (payload.checkpoint ? CHECKPOINT_STEPS : 1);
  const done = payload.checkpoint ? await stepsDone(context, steps) : 0;
  const fails = payload.failure !== undefined && context.attempt <= (payload.fail_times ?? Number.POSITIVE_INFINITY);
  // A failing attempt gets half of what is left done, so that a checkpoint is worth something to the next.
  const last = fails ? done + Math.ceil((steps - done) / 2) : steps;
  const stepMs = (payload.duration_ms * timeScale) / steps;
  for (let step = done + 1; step <= last; step++) {
    await rest(stepMs, context.signal);
    if (payload.checkpoint) await context.checkpoint({ step });
    if (payload.progress_steps !== undefined) {
      await context.reportProgress((step / steps) * 100, `step ${step} of ${steps}`);
    }
  }
  if (fails) await FAILURES[payload.failure as SimulatedFailure](context, allowCrash);
  if (payload.output_bytes !== undefined) return bytes(payload.output_bytes);
  return { attempt: context.attempt, steps: last - done, children };
}

/** A key for each, so that a later attempt finds the children of an earlier one. */
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

/** Each throws, or does not come back. */
const FAILURES: Record<SimulatedFailure, (context: SimulateContext, allowCrash: boolean) => Promise<never>> = {
  async TEMPORARY({ attempt }) {
    throw new TemporaryError(`attempt ${attempt} failed, as it was told to`, { code: 'SIMULATED_TEMPORARY' });
  },
  async PERMANENT({ attempt }) {
    throw new PermanentError(`attempt ${attempt} failed for good, as it was told to`, { code: 'SIMULATED_PERMANENT' });
  },
  async TIMEOUT({ signal }) {
    for (;;) await rest(LONGEST_WAIT_MS, signal);
  },
  async CRASH({ signal }, allowCrash) {
    if (!allowCrash) {
      throw new TemporaryError('this worker does not let a simulated job kill it; start it with allowCrash', {
        code: 'SIMULATED_CRASH_REFUSED',
      });
    }
    process.kill(process.pid, 'SIGKILL');
    for (;;) await rest(LONGEST_WAIT_MS, signal);
  },
};

/** Rejects with the reason as soon as the attempt is to stop. */
async function rest(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (ms <= 0) return;
  await delay(Math.min(ms, LONGEST_WAIT_MS), undefined, { signal }).catch(() => signal.throwIfAborted());
}

/** A sequence that looks like chance and is always the same. */
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
