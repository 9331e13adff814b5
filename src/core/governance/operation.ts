/** What an operation does with each of its jobs. */
export const OPERATION_ACTIONS = ['replay', 'discard', 'fix_forward', 'retry', 'cancel'] as const;

export type OperationAction = (typeof OPERATION_ACTIONS)[number];

export const OPERATION_STATES = ['canary', 'running', 'paused', 'halted', 'completed', 'stopped'] as const;

export type OperationState = (typeof OPERATION_STATES)[number];

/** How far an operation is with one of its jobs. */
export const ITEM_RESULTS = ['waiting', 'sent', 'succeeded', 'failed', 'skipped'] as const;

export type ItemResult = (typeof ITEM_RESULTS)[number];

/** The actions that need an open entry in the dead letter. The others need a job. */
export const actsOnDeadLetters = (action: OperationAction): boolean =>
  action === 'replay' || action === 'discard' || action === 'fix_forward';

/** When an operation halts by itself. */
export type HaltRule = {
  /** The share of failures among finished jobs that is still accepted. */
  readonly failureRate: number;
  /** How many jobs must have finished before the share counts. */
  readonly after: number;
};

export const DEFAULT_HALT: HaltRule = Object.freeze({ failureRate: 0.2, after: 20 });

/** Jobs a second, if a request names no rate. */
export const DEFAULT_RATE = 100;

export const MAX_RATE = 10_000;
export const MAX_OPERATION_JOBS = 10_000;
export const MAX_CANARY = 10_000;

export type Outcomes = { readonly succeeded: number; readonly failed: number };

/**
 * Why an operation must halt, or null. `outcomes` are those since it began or was last resumed. A canary is judged when all of it has
 * finished, however small it is.
 */
export function whyHalt(rule: HaltRule | null, { succeeded, failed }: Outcomes, isWholeCanary: boolean): string | null {
  const finished = succeeded + failed;
  if (rule === null || finished === 0 || (finished < rule.after && !isWholeCanary)) return null;
  if (failed / finished <= rule.failureRate) return null;
  const percent = (share: number) => `${Math.round(share * 1_000) / 10} %`;
  return `${failed} of ${finished} finished jobs failed, which is ${percent(failed / finished)}; the limit is ${percent(rule.failureRate)}.`;
}

/** How many jobs may be sent now, and up to which time they are paid for. A pause gives no credit beyond a twentieth of a second. */
export function paceOf(params: { nowMs: number; paidUntilMs: number; rate: number; atMost: number }): {
  count: number;
  paidUntilMs: number;
} {
  const { nowMs, rate, atMost } = params;
  const fromMs = Math.max(params.paidUntilMs, nowMs - Math.max(50, 1_000 / rate));
  const count = Math.min(atMost, Math.floor(((nowMs - fromMs) * rate) / 1_000 + 1e-6));
  return { count: Math.max(0, count), paidUntilMs: fromMs + (Math.max(0, count) * 1_000) / rate };
}
