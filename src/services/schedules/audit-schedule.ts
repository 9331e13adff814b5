import { BY_PROGRAM } from '../../core/governance/audit-action.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import type { Author } from './schedule-request.ts';

type ScheduleEvent = 'created' | 'changed' | 'deleted' | 'run';
type Facts = { jobId?: string; members?: readonly string[]; paused?: boolean };

/** Writes what was asked of a schedule for the audit trail, in the transaction that does it. */
export async function auditSchedule(
  db: Queryable,
  { orgId, projectId, key }: Pick<Schedule, 'orgId' | 'projectId' | 'key'>,
  {
    event,
    by: { actor, reason, requestId = null },
    jobId = null,
    ...facts
  }: { event: ScheduleEvent; by: Author } & Omit<Facts, 'jobId'> & {
      jobId?: string | null;
    },
): Promise<void> {
  const requester = { actor: actor ?? BY_PROGRAM.actor, requestId, reason };
  await recordActions(db, [{ orgId, projectId, event: `schedule.${event}`, requester, jobId, details: { key, ...facts } }]);
}
