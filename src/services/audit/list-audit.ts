import type { AuditRow } from '../../core/governance/audit-row.ts';
import { isUuid } from '../../core/ids.ts';
import type { Engine } from '../../engine/engine.ts';
import { type AuditFilter, listAudit as listInLedger } from '../../ledger/audit/list-audit.ts';
import { readsOf } from '../../ledger/driver/org-reads.ts';

export type AuditList = { readonly rows: readonly AuditRow[]; readonly nextCursor: string | null };

const NOTHING: AuditList = { rows: [], nextCursor: null };

/** Returns a page of the audit trail, newest first. */
export async function listAudit(engine: Engine, filter: AuditFilter, page: { cursor: string | null; limit: number }): Promise<AuditList> {
  // No row can match text that the database does not store.
  const texts = [filter.event, filter.actorId];
  if ((filter.jobId !== null && !isUuid(filter.jobId)) || texts.some((text) => text?.includes('\u0000'))) return NOTHING;
  const { searches, maintenance } = engine.database;
  return listInLedger(readsOf(searches, filter.orgId, maintenance), filter, page);
}
