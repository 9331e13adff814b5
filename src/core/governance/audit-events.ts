import { maskSecrets } from '../mask-secrets.ts';
import type { JobState } from '../states.ts';
import type { Reason } from '../transitions.ts';

/** A transition of a job, as the history has it. */
export type AuditedTransition = {
  readonly from: JobState | null;
  readonly to: JobState;
  readonly reason: Reason;
  readonly workerId: number | null;
  /** Who asked for the transition, if somebody did. */
  readonly actor: string | null;
  /** The failure of an attempt, or the words of a cancel, as JSON text. */
  readonly detail: string | null;
};

type JobEvent = 'job.enqueued' | 'job.started' | 'job.succeeded' | 'job.failed' | 'job.deadlettered' | 'job.retried' | 'job.cancelled';

export type AuditedEvent = {
  readonly event: JobEvent;
  readonly performedBy: string | null;
  readonly details: Readonly<Record<string, unknown>>;
};

/** An attempt that ends for one of these reasons did not fail: its job goes back to the queue. */
const GIVEN_BACK: ReadonlySet<Reason> = new Set(['released', 'postponed']);

/**
 * The audit events of a transition, in order. A manual retry has none here, because whoever asked for it wrote `job.retried`, with
 * the request.
 */
export function auditedEvents(transition: AuditedTransition): AuditedEvent[] {
  const { from, to, reason } = transition;
  if (reason === 'submitted') return [event('job.enqueued', { ...transition, workerId: null }, {})];
  if (reason === 'manual_retry') return [];
  switch (to) {
    case 'running':
      return [event('job.started', transition, isPresumed(transition) ? { presumed: true } : {})];
    case 'completed':
      return [event('job.succeeded', transition, {})];
    case 'retrying':
      return GIVEN_BACK.has(reason) ? [] : [failed(transition, false)];
    case 'failed':
      return [failed(transition, true)];
    case 'dead_letter':
      return [...(from === 'running' ? [failed(transition, true)] : []), event('job.deadlettered', transition, { reason })];
    case 'cancelled':
      return [event('job.cancelled', transition, { reason, ...wordsOf(transition) })];
    case 'scheduled':
      return from === 'retrying' ? [event('job.retried', transition, { reason })] : [];
    default:
      return [];
  }
}

const failed = (transition: AuditedTransition, final: boolean): AuditedEvent =>
  event('job.failed', transition, { final, reason: transition.reason, ...failureOf(transition) });

function event(name: JobEvent, transition: AuditedTransition, details: Record<string, unknown>): AuditedEvent {
  return { event: name, performedBy: performerOf(name, transition), details };
}

/** The worker or the loop that made the change, or the actor of the request that made it immediately. */
function performerOf(name: JobEvent, transition: AuditedTransition): string | null {
  const { workerId, reason, actor, from } = transition;
  if (name === 'job.enqueued') return null;
  if (reason === 'worker_lost' || isPresumed(transition)) return 'reaper';
  if (workerId !== null) return `worker:${workerId}`;
  if (reason === 'lifetime_exceeded') return 'pruner';
  if (reason === 'backoff_elapsed' || reason === 'released') return 'scheduler';
  if (reason === 'cancelled' || reason === 'retry_dropped') return actor ?? 'system:millrace';
  if (reason === 'succeeded' || reason === 'child_failed' || from === 'pending') return 'releaser';
  return from === 'running' ? 'reaper' : 'system:millrace';
}

const isPresumed = ({ to, detail }: AuditedTransition): boolean => to === 'running' && detail !== null && read(detail).presumed === true;

/** Code, category and message of a failure. Messages come from handlers, so secrets in them are masked. No stack, no context. */
function failureOf({ detail }: AuditedTransition): Record<string, unknown> {
  if (detail === null) return {};
  const { code, category, message } = read(detail);
  return {
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof category === 'string' ? { category } : {}),
    ...(typeof message === 'string' ? { message: maskSecrets(message) } : {}),
  };
}

function wordsOf({ detail }: AuditedTransition): Record<string, unknown> {
  if (detail === null) return {};
  const { reason } = read(detail);
  return typeof reason === 'string' ? { words: maskSecrets(reason) } : {};
}

function read(detail: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(detail);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
