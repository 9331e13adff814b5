import { type Decision, decide, type Outcome } from '../../core/decide.ts';
import type { Policy } from '../../core/policy.ts';
import type { SettledJob } from '../../ledger/attempts/settle-jobs.ts';
import type { RegisteredHandler } from './registry.ts';

/** What deciding an outcome needs to know of a job, whoever holds it. */
export type DecidedJob = {
  orgId: string;
  seq: number;
  leaseSeq: number;
  attemptsStarted: number;
  maxAttempts: number;
  lifetimeLeftMs: number | null;
};

/** Turns an outcome into the row that settles it. The lifetime counts from `elapsedMs` ago, on a clock of ours. */
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
    job: { attemptsStarted: job.attemptsStarted, maxAttempts: job.maxAttempts, lifetimeDeadlineMs: job.lifetimeLeftMs },
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
    refundsAttempt: outcome.kind === 'released',
  };
  return { row, decision };
}
