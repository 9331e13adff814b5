import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import type { Engine } from '../../engine/engine.ts';
import {
  changeOrg as changeInLedger,
  getOrg as getFromLedger,
  listOrgPage,
  markOrgForDeletion,
  type OrgChange,
} from '../../ledger/access/manage-orgs.ts';
import { DEFAULT_ORG_ID, type ListedOrg } from '../../ledger/access/orgs.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { readsOf } from '../../ledger/driver/org-reads.ts';
import { readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';
import { sqlStateOf } from '../../ledger/driver/statement.ts';
import { checkOrgName } from './org-names.ts';

export type { ListedOrg };

/** Who looks: with the operator token at every org (null), with a key at its own. */
export type OrgSight = { readonly orgId: string | null };

export type Page = { readonly cursor: string | null; readonly limit: number };

const UNIQUE_VIOLATION = '23505';

const noSuchOrg = (id: string): AppError => new AppError('NOT_FOUND', { message: `There is no org ${id.slice(0, 100)}.` });

/** Throws NOT_FOUND for an org that does not exist, is being deleted, or is not the caller's. */
export async function requireOrgById(database: Database, sight: OrgSight, id: string): Promise<ListedOrg> {
  const wanted = isUuid(id) ? id.toLowerCase() : null;
  const isSeen = wanted !== null && (sight.orgId === null || sight.orgId === wanted);
  const org = isSeen ? await getFromLedger(database.reads.of(wanted), wanted) : null;
  if (org === null) throw noSuchOrg(id);
  return org;
}

/** In the order of their names. */
export async function findOrgs(
  { api, reads }: Database,
  { orgId }: OrgSight,
  { cursor, limit }: Page,
): Promise<{ items: ListedOrg[]; nextCursor: string | null }> {
  const seal = await sealOf(api);
  const scope = { list: 'ORGS', orgId: orgId ?? 'operators', filter: {} } as const;
  const after = cursor === null ? '' : (readPageCursor(seal, scope, cursor)[0] as string);
  const rows = await listOrgPage(readsOf(reads, orgId, api), { orgId, after, limit: limit + 1 });
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { items, nextCursor: hasMore ? writePageCursor(seal, scope, [last.slug]) : null };
}

export type ChangeOrgRequest = { readonly org: ListedOrg; readonly change: OrgChange; readonly requester: Requester };

/** A new cap on running jobs applies to all processes at once. A new rate applies from the next block of permits on. */
export async function changeOrg(engine: Engine, { org, change, requester }: ChangeOrgRequest): Promise<ListedOrg> {
  const { slug, requestsPerMinute, maxRunning } = change;
  if (slug !== undefined) checkOrgName(slug, 'name');
  if (org.id === DEFAULT_ORG_ID && slug !== undefined && slug !== org.slug) {
    throw new AppError('CONFLICT', { message: 'The org "default" cannot be renamed: commands without --org use it.' });
  }
  const changed = await inTransaction(engine.database.api, async (client) => {
    const after = await changeInLedger(client, org.id, change);
    if (after === null) return null;
    const details = {
      ...(slug === undefined ? {} : { name: slug, previous_name: org.slug }),
      ...(requestsPerMinute === undefined ? {} : { requests_per_minute: requestsPerMinute }),
      ...(maxRunning === undefined ? {} : { max_running: maxRunning }),
    };
    await recordActions(client, [{ orgId: org.id, event: 'org.changed', requester, details }]);
    return after;
  }).catch((error) => {
    if (sqlStateOf(error) !== UNIQUE_VIOLATION) throw error;
    throw new AppError('CONFLICT', { message: `The org "${slug}" already exists. Choose another name.`, cause: error });
  });
  if (changed === null) throw noSuchOrg(org.id);
  if (maxRunning !== undefined) {
    await engine.catalogue.refresh();
    engine.hint('catalogue');
    engine.hint('ready');
  }
  return changed;
}

export type DeleteOrgRequest = { readonly org: ListedOrg; readonly confirm: string; readonly requester: Requester };

/**
 * Begins to delete an org: its keys stop working and it disappears from lists. A maintenance job then removes its data. The rows of its
 * audit trail stay.
 */
export async function deleteOrg({ api }: Pick<Database, 'api'>, { org, confirm, requester }: DeleteOrgRequest): Promise<void> {
  if (org.id === DEFAULT_ORG_ID) {
    throw new AppError('CONFLICT', { message: 'The org "default" cannot be deleted: Millrace needs it.' });
  }
  if (confirm !== org.slug) {
    const message = `confirm must be the name of the org, "${org.slug}". Nothing was deleted`;
    throw invalidRequest({ field: 'confirm', code: 'NOT_CONFIRMED', message });
  }
  const isMarked = await inTransaction(
    api,
    async (client) => {
      const marked = await markOrgForDeletion(client, { orgId: org.id, slug: org.slug, actor: requester.actor });
      if (marked) await recordActions(client, [{ orgId: org.id, event: 'org.deleted', requester, details: { name: org.slug } }]);
      return marked;
    },
    { mayRepeat: true },
  );
  if (!isMarked) throw noSuchOrg(org.id);
}
