import type { Failure } from '../failure.ts';

/** The queue in which dead-lettered jobs appear. Their own queue is their origin queue. */
export const DEAD_LETTER_QUEUE = 'q:deadletter';

/** What became of a dead-lettered job. */
export const DEAD_LETTER_STATUSES = ['open', 'replayed', 'discarded', 'fixed_forward'] as const;

export type DeadLetterStatus = (typeof DEAD_LETTER_STATUSES)[number];

export const isDeadLetterStatus = (value: unknown): value is DeadLetterStatus =>
  (DEAD_LETTER_STATUSES as readonly unknown[]).includes(value);

/** How long the dead letter keeps its entries, and how long a discard can be undone. */
export type DeadLetterTerms = {
  /** How long an entry is kept after its job died. */
  readonly retentionMs: number;
  /** How long a discard and an operation can be undone. */
  readonly undoWindowMs: number;
};

const DAY_MS = 86_400_000;

export const DEFAULT_DEAD_LETTER_TERMS: DeadLetterTerms = Object.freeze({ retentionMs: 90 * DAY_MS, undoWindowMs: DAY_MS });

/** What an operator can do with an entry. */
type DeadLetterAction = 'replay' | 'fix_forward' | 'discard';

export type ActionPlan = { readonly recommended: DeadLetterAction; readonly steps: readonly string[] };

const AFTER_REPLAY = 'Read the job afterwards. If it dies again, the entry is open again with the new error.';

const PLANS = {
  fix_forward: [
    'Compare the payload with the error, and find the member that the handler refuses.',
    'Try the correction with "dry_run" for the whole group, then fix the entry forward with a payload or a patch.',
    'If the work is not needed any more, discard the entry.',
  ],
  replay: [
    'Find the cause in the error and the log of the job, and make sure that it is gone.',
    'Replay the entry, or the whole group with a canary and a rate.',
    AFTER_REPLAY,
  ],
  discard: [
    'The job did not end within its lifetime. Check whether its work is still wanted.',
    'If it is not, discard the entry. A discard can be undone until undo_until.',
    'If it is, replay the entry: its lifetime begins again.',
  ],
  dependency: [
    'The job did not run, because a job that it depends on did not complete. Look at that job first.',
    'When that job has completed, or is not needed, replay this entry.',
    AFTER_REPLAY,
  ],
} as const;

/** Codes of errors that come back with the same payload. */
const WRONG_PAYLOAD = /INVALID|VALIDATION|SERIALIZABLE|SCHEMA|PARSE|MALFORMED|UNSUPPORTED|MISSING/i;

/** Recommends what to do with a dead-lettered job. `reason` is the reason of its last transition. */
export function actionPlanOf({ category, code }: Pick<Failure, 'category' | 'code'>, reason: string): ActionPlan {
  if (reason === 'dependency_dead_letter' || reason === 'chain_stopped') return { recommended: 'replay', steps: PLANS.dependency };
  if (reason === 'poison' || category === 'PERMANENT' || WRONG_PAYLOAD.test(code))
    return { recommended: 'fix_forward', steps: PLANS.fix_forward };
  if (code === 'LIFETIME_EXCEEDED') return { recommended: 'discard', steps: PLANS.discard };
  return { recommended: 'replay', steps: PLANS.replay };
}
