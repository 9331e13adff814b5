import fc from 'fast-check';
import type { StateTransition } from '../../src/core/job.ts';
import type { JobState } from '../../src/core/states.ts';
import type { Reason } from '../../src/core/transitions.ts';

export const START_MS = Date.UTC(2026, 2, 1, 12);

type Step = readonly [to: JobState, reason: Reason, wasClaimed?: true];

/** Where jobs of the execution API may go: no dependencies, no lifetime, cancels at once. */
const STEPS: Partial<Record<JobState, readonly Step[]>> = {
  pending: [
    ['scheduled', 'submitted'],
    ['delayed', 'submitted'],
  ],
  delayed: [
    ['scheduled', 'delay_elapsed'],
    ['cancelled', 'cancelled'],
  ],
  scheduled: [
    ['running', 'started'],
    ['cancelled', 'cancelled'],
    ['cancelled', 'cancelled', true],
  ],
  running: [
    ['completed', 'succeeded'],
    ['failed', 'permanent_failure'],
    ['failed', 'temporary_failure'],
    ['failed', 'timed_out'],
    ['failed', 'worker_lost'],
    ['retrying', 'temporary_failure'],
    ['retrying', 'released'],
    ['dead_letter', 'attempts_exhausted'],
    ['cancelled', 'cancelled'],
  ],
  retrying: [
    ['scheduled', 'backoff_elapsed'],
    ['failed', 'retry_dropped'],
  ],
  failed: [
    ['scheduled', 'manual_retry'],
    ['delayed', 'manual_retry'],
  ],
  dead_letter: [
    ['scheduled', 'manual_retry'],
    ['delayed', 'manual_retry'],
  ],
};

/** A job's life along these choices, each some milliseconds after the one before. */
function walk(choices: readonly { readonly choice: number; readonly waitMs: number }[]): StateTransition[] {
  const history: StateTransition[] = [];
  let from: JobState = 'pending';
  let atMs = START_MS;
  let attempt = 0;
  for (const { choice, waitMs } of choices) {
    const steps: readonly Step[] = STEPS[from] ?? [];
    if (steps.length === 0) break;
    const [to, reason, wasClaimed] = steps[choice % steps.length] as Step;
    atMs += waitMs;
    if (reason === 'started') attempt++;
    const claimed = wasClaimed === undefined ? {} : { wasClaimed };
    history.push({ from, to, at: new Date(atMs), reason, attempt, actor: null, ...claimed });
    from = to;
  }
  return history;
}

/** Waits may be zero, and the clock may once go back. */
export const histories: fc.Arbitrary<StateTransition[]> = fc
  .array(fc.record({ choice: fc.nat(1_000), waitMs: fc.integer({ min: -2, max: 3 }) }), { minLength: 1, maxLength: 40 })
  .map(walk);

/** A history in few words: `pending>scheduled submitted`, one second apart. */
export function historyOf(...lines: string[]): StateTransition[] {
  let attempt = 0;
  return lines.map((line, index) => {
    const [pair, reason, mark] = line.split(' ') as [string, Reason, string?];
    const [from, to] = pair.split('>') as [JobState, JobState];
    if (reason === 'started') attempt++;
    const at = new Date(START_MS + index * 1_000);
    const marked = { ...(mark === 'claimed' && { wasClaimed: true }), ...(mark === 'timed_out' && { timedOut: true }) };
    return { from, to, at, reason, attempt, actor: null, ...(marked as Partial<StateTransition>) };
  });
}
