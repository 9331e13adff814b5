import { AppError } from '../../core/errors.ts';
import { NIL_ORG_ID, type Requester } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import type { Engine } from '../../engine/engine.ts';
import { type Alert, type AlertFilter, acknowledgeAlert as acknowledgeInLedger, listAlerts } from '../../ledger/alerts/list-alerts.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { readsOf } from '../../ledger/driver/org-reads.ts';
import { invalidCursor, readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';

export type { Alert };

export type AlertPage = { readonly alerts: Alert[]; readonly nextCursor: string | null };

/** Returns a page of alerts, newest first. A cursor belongs to its filter. */
export async function findAlerts(
  { database }: Pick<Engine, 'database'>,
  filter: AlertFilter,
  { cursor, limit }: { cursor: string | null; limit: number },
): Promise<AlertPage> {
  const seal = await sealOf(database.api);
  const scope = { list: 'ALERTS', orgId: filter.orgId ?? '', filter } as const;
  const after = cursor === null ? null : positionIn(readPageCursor(seal, scope, cursor));
  const { alerts, next } = await listAlerts(readsOf(database.reads, filter.orgId, database.api), filter, { after, limit });
  return { alerts, nextCursor: next === null ? null : writePageCursor(seal, scope, [next.firstAt, next.id]) };
}

function positionIn([firstAt, id]: unknown[]): { firstAt: string; id: string } {
  if (typeof firstAt === 'string' && isUuid(id)) return { firstAt, id };
  throw invalidCursor();
}

export type AcknowledgeParams = { readonly id: string; readonly orgId: string | null; readonly requester: Requester };

/** Marks an alert as seen. Repeats change nothing. Throws NOT_FOUND if the caller has no such alert. */
export async function acknowledgeAlert({ database }: Pick<Engine, 'database'>, params: AcknowledgeParams): Promise<Alert> {
  const { id, orgId, requester } = params;
  const found = isUuid(id)
    ? await inTransaction(database.api, async (client) => {
        const acknowledged = await acknowledgeInLedger(client, { id, orgId, actor: requester.actor });
        if (acknowledged?.isNew === true) await recordActions(client, [actionFor(acknowledged.alert, requester)]);
        return acknowledged;
      })
    : null;
  if (found !== null) return found.alert;
  throw new AppError('NOT_FOUND', { message: `There is no alert "${id.slice(0, 100)}". See GET /operators/alerts.` });
}

const actionFor = ({ id, orgId, kind, subject }: Alert, requester: Requester) => ({
  orgId: orgId ?? NIL_ORG_ID,
  event: 'alert.acknowledged',
  requester,
  details: { alert_id: id, kind, subject },
});
