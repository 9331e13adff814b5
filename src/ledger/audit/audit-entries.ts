import { actorOfText } from '../../core/governance/actor.ts';
import { auditedEvents } from '../../core/governance/audit-events.ts';
import { type AuditEntry, type AuditRow, detailsText, hashOf, lineOf, NO_HASH } from '../../core/governance/audit-row.ts';
import { maskSecrets } from '../../core/mask-secrets.ts';
import type { AuditPage, WaitingAction, WaitingEvent } from './audit-page.ts';

/** The entries of a page, in commit order. The actions of a transaction come before its events: a request before what it caused. */
export function entriesOf({ actions, events }: Pick<AuditPage, 'actions' | 'events'>): AuditEntry[] {
  const entries: AuditEntry[] = [];
  let next = 0;
  for (const event of events) {
    for (; next < actions.length && (actions[next] as WaitingAction).txid <= event.txid; next++)
      entries.push(entryOfAction(actions[next] as WaitingAction));
    entries.push(...entriesOfEvent(event));
  }
  for (const action of actions.slice(next)) entries.push(entryOfAction(action));
  return entries;
}

function entryOfAction(action: WaitingAction): AuditEntry {
  const { txid: _txid, id: _id, actor, details, ...rest } = action;
  const { type: actorType, id: actorId } = actorOfText(actor);
  return { ...rest, actorType, actorId, details: details === null ? '{}' : detailsText(readable(details)) };
}

/** The words of a requester may contain a secret. */
function readable(text: string): unknown {
  const details: unknown = parsed(text);
  if (typeof details !== 'object' || details === null || !('reason' in details) || typeof details.reason !== 'string') return details;
  return { ...details, reason: maskSecrets(details.reason) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { unreadable: true };
  }
}

/** Engine-made changes keep the actor and the request that submitted the job, and name what performed them. */
function entriesOfEvent(event: WaitingEvent): AuditEntry[] {
  const { at, orgId, projectId, jobId, jobType, attempt, requestId, correlationId } = event;
  const { type: actorType, id: actorId } = actorOfText(event.actor);
  return auditedEvents({ ...event, actor: event.causedBy }).map((audited) => ({
    at,
    event: audited.event,
    orgId,
    projectId,
    actorType,
    actorId,
    performedBy: audited.performedBy,
    requestId: requestId ?? jobId,
    correlationId: correlationId ?? requestId ?? jobId,
    jobId,
    jobType,
    attempt,
    details: Object.keys(audited.details).length === 0 ? '{}' : detailsText(audited.details),
  }));
}

/** The end of a chain: where the next row is added. */
export type ChainEnd = { readonly position: number; readonly hash: string };

/** Gives each entry its id, its place in the chain of its org and its hash. */
export function chained(
  entries: readonly AuditEntry[],
  { lastId, recordedAt: readAt, ends }: { lastId: number; recordedAt: Date; ends: ReadonlyMap<string, ChainEnd> },
): AuditRow[] {
  // Lists look up times by `recordedAt`, which is therefore never before the time of the row, even if a clock was set back.
  const recordedAt = new Date(entries.reduce((latest, { at }) => Math.max(latest, at.getTime()), readAt.getTime()));
  const current = new Map(ends);
  let id = lastId;
  return entries.map((entry) => {
    const end = current.get(entry.orgId) ?? { position: 0, hash: NO_HASH };
    id++;
    const row = { ...entry, id, position: end.position + 1, recordedAt };
    const hash = hashOf(end.hash, lineOf(row));
    current.set(entry.orgId, { position: row.position, hash });
    return { ...row, hash };
  });
}
