import type { HaltRule, OperationAction, OperationState } from '../../core/governance/operation.ts';
import type { PatchStep } from '../../core/governance/payload-patch.ts';
import { dateOf, type Time } from '../reads/job-row.ts';

/** A change to many jobs, with how far it is. */
export type Operation = {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly action: OperationAction;
  readonly state: OperationState;
  /** In the words of the core. Null: the jobs were named. */
  readonly filter: Readonly<Record<string, unknown>> | null;
  readonly patch: readonly PatchStep[] | null;
  /** Null if there is none. A payload that is null cannot be submitted. */
  readonly payload: unknown;
  readonly canary: number;
  readonly rate: number;
  readonly halt: HaltRule | null;
  readonly reason: string | null;
  readonly actor: string;
  readonly requestId: string | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  readonly haltedBecause: string | null;
  /** The list of its jobs is complete, so `matching` is final. */
  readonly isListed: boolean;
  readonly matching: number;
  readonly sent: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly skipped: number;
  readonly undone: number;
  readonly undoAskedAt: Date | null;
  readonly undoneAt: Date | null;
};

export const OPERATION = `o.id, o.org_id, o.project_id, o.action, o.state, o.filter, o.patch, o.payload, o.canary, o.rate, o.halt_failure_rate,
  o.halt_after, o.reason, o.actor, o.request_id, o.created_at, o.finished_at, o.halted_because, o.is_listed, o.matching, o.sent, o.succeeded,
  o.failed, o.skipped, o.undone, o.undo_asked_at, o.undone_at`;

export type OperationRow = {
  id: string;
  org_id: string;
  project_id: string | null;
  action: OperationAction;
  state: OperationState;
  filter: Record<string, unknown> | null;
  patch: PatchStep[] | null;
  payload: unknown;
  canary: number;
  rate: number;
  halt_failure_rate: number | null;
  halt_after: number | null;
  reason: string | null;
  actor: string;
  request_id: string | null;
  created_at: Time;
  finished_at: Time | null;
  halted_because: string | null;
  is_listed: boolean;
  matching: number;
  sent: number;
  succeeded: number;
  failed: number;
  skipped: number;
  undone: number;
  undo_asked_at: Time | null;
  undone_at: Time | null;
};

export const toOperation = (row: OperationRow): Operation => ({
  id: row.id,
  orgId: row.org_id,
  projectId: row.project_id,
  action: row.action,
  state: row.state,
  filter: row.filter,
  patch: row.patch,
  payload: row.payload,
  canary: row.canary,
  rate: row.rate,
  halt: row.halt_failure_rate === null || row.halt_after === null ? null : { failureRate: row.halt_failure_rate, after: row.halt_after },
  reason: row.reason,
  actor: row.actor,
  requestId: row.request_id,
  createdAt: new Date(row.created_at),
  finishedAt: dateOf(row.finished_at),
  haltedBecause: row.halted_because,
  isListed: row.is_listed,
  matching: row.matching,
  sent: row.sent,
  succeeded: row.succeeded,
  failed: row.failed,
  skipped: row.skipped,
  undone: row.undone,
  undoAskedAt: dateOf(row.undo_asked_at),
  undoneAt: dateOf(row.undone_at),
});
