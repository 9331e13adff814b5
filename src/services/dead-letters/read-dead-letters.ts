import { type ActionPlan, actionPlanOf } from '../../core/governance/dead-letter.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { DeadLetter } from '../../ledger/dead-letters/entry-row.ts';
import { type DeadLetterGroups, groupEntries } from '../../ledger/dead-letters/group-entries.ts';
import { getEntry, listEntries } from '../../ledger/dead-letters/read-entries.ts';
import { checkFilter, type DeadLetterFilter, readPage } from './dead-letter-request.ts';

export type { DeadLetterGroup, DeadLetterGroups } from '../../ledger/dead-letters/group-entries.ts';

/** An entry with what to do about it. */
export type DeadLetterView = DeadLetter & { readonly actionPlan: ActionPlan };

export type DeadLetterList = { entries: DeadLetterView[]; nextCursor: string | null };

export type ListParams = Owner & { filter?: DeadLetterFilter; limit?: number; cursor?: string | null; signal?: AbortSignal };

/** Returns a page of entries, newest first. */
export async function listDeadLetters(engine: Engine, params: ListParams): Promise<DeadLetterList> {
  const { orgId, filter = {}, signal } = params;
  checkFilter(filter);
  const page = readPage(params);
  const found = await engine.searches.run(orgId, (db) => listEntries(db, params, { filter, ...page }), signal);
  return { entries: found.entries.map(toView), nextCursor: found.nextCursor };
}

/** Returns groups of entries with the same cause, the largest first. */
export async function groupDeadLetters(engine: Engine, params: Omit<ListParams, 'cursor'>): Promise<DeadLetterGroups> {
  const { orgId, filter = {}, signal } = params;
  checkFilter(filter);
  const { limit } = readPage(params);
  return engine.searches.run(orgId, (db) => groupEntries(db, params, { filter, limit }), signal);
}

/** Returns the entry of a job, or null if the owner has none. */
export async function readDeadLetter(engine: Engine, { id, ...owner }: Owner & { id: string }): Promise<DeadLetterView | null> {
  const entry = isUuid(id) ? await getEntry(engine.database.reads.of(owner.orgId), owner, id) : null;
  return entry === null ? null : toView(entry);
}

const toView = (entry: DeadLetter): DeadLetterView => ({ ...entry, actionPlan: actionPlanOf(entry.error, entry.reason) });
