import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { removeSchedule as removeFromLedger, type Schedule } from '../../ledger/queues/schedules.ts';
import { auditSchedule } from './audit-schedule.ts';
import { type Author, mayBeKey } from './schedule-request.ts';

/** Removes a schedule. Jobs that it submitted continue. Returns the schedule as it was, or null if the owner has none with this key. */
export async function removeSchedule(
  engine: Engine,
  { key, actor = null, reason = null, requestId = null, ...owner }: Owner & Partial<Author> & { key: string },
): Promise<Schedule | null> {
  if (!mayBeKey(key)) return null;
  return inTransaction(
    engine.database.api,
    async (client) => {
      const removed = await removeFromLedger(client, owner, key);
      if (removed !== null) await auditSchedule(client, removed, { event: 'deleted', by: { actor, reason, requestId } });
      return removed;
    },
    { mayRepeat: true },
  );
}
