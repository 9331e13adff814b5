import { type Decision, decide, type Outcome } from '../../core/decide.ts';
import type { Payload } from '../../core/payload.ts';
import type { Policy } from '../../core/policy.ts';
import type { SettledJob } from '../../ledger/attempts/settle-jobs.ts';
import type { RegisteredHandler } from './registry.ts';
import type { RunningAttempt } from './running-attempt.ts';

/** What the decision about an outcome needs to know of a job, in a worker or in the rescuer. */
export type DecidedJob = {
  orgId: string;
  seq: number;
  leaseSeq: number;
  attemptsStarted: number;
  maxAttempts: number;
  lifetimeLeftMs: number | null;
  permanentFailures?: number | null;
};

/** Decides what an outcome means for the job and returns the row to write. `lifetimeLeftMs` was measured `elapsedMs` ago. */
export function settlement(params: {
  job: DecidedJob;
  policy: Policy;
  outcome: Outcome;
  elapsedMs: number;
  registered?: RegisteredHandler;
}): { row: SettledJob; decision: Decision } {
  const { job, policy, outcome } = params;
  const decision = decide({
    outcome,
    policy,
    job: {
      attemptsStarted: job.attemptsStarted,
      maxAttempts: job.maxAttempts,
      lifetimeDeadlineMs: job.lifetimeLeftMs,
      permanentFailures: job.permanentFailures ?? 0,
    },
    random: Math.random(),
    nowMs: params.elapsedMs,
    custom: params.registered?.customBackoff,
  });
  const row: SettledJob = {
    orgId: job.orgId,
    seq: job.seq,
    leaseSeq: job.leaseSeq,
    to: decision.transition.to,
    reason: decision.transition.reason,
    delayMs: decision.delayMs ?? null,
    failure: decision.failure === undefined ? null : JSON.stringify(decision.failure),
    result: null,
    resultBytes: null,
    holds: false,
    refundsAttempt: decision.refundsAttempt === true,
  };
  return { row, decision };
}

/** The row that completes a job with its result. */
export const completedRow = ({ job, joinsChildren }: RunningAttempt, output: Payload): SettledJob => ({
  orgId: job.orgId,
  seq: job.seq,
  leaseSeq: job.leaseSeq,
  to: 'completed',
  reason: 'succeeded',
  delayMs: null,
  failure: null,
  result: output.kind === 'json' ? output.text : null,
  resultBytes: output.kind === 'bytes' ? output.bytes : null,
  holds: joinsChildren,
  refundsAttempt: false,
});
