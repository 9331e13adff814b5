import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { type Moves, reportMoves } from '../../engine/report-moves.ts';
import { advanceSchedule } from '../../ledger/queues/schedule-turns.ts';
import { lockSchedule } from '../../ledger/queues/schedules.ts';
import { auditSchedule } from './audit-schedule.ts';
import { conflict } from './put-schedule.ts';
import { type Author, checkReason, mayBeKey } from './schedule-request.ts';

export type RunScheduleParams = Owner & Author & { key: string };

/**
 * Submits the job of a schedule now, even if it is paused, and returns its id. Returns null if the owner has none with this key. The next
 * scheduled run stays the same. The rule for overlaps applies: throws CONFLICT if it is `skip` and an earlier job has not ended.
 */
export async function runSchedule(engine: Engine, params: RunScheduleParams): Promise<{ jobId: string } | null> {
  const { orgId, key, actor, reason } = params;
  checkReason(reason);
  if (!mayBeKey(key)) return null;
  let moves: Moves = [];
  const run = await engine.writer.transact(orgId, async (client) => {
    // The transaction may start again.
    moves = [];
    const locked = await lockSchedule(client, params, key);
    if (locked === null) return null;
    const { schedule, now: plannedAt } = locked;
    const request = { schedule, plannedAt, idempotencyKey: null, actor: actor ?? 'system:schedule', moves };
    const turn = await engine.scheduleTurns.take(client, request);
    if (turn.kind === 'skipped') throw conflict(overlapping(key, turn.openJobId));
    const { jobId } = turn;
    await advanceSchedule(client, { orgId, key, nextAt: schedule.nextAt, fired: { at: plannedAt, jobId }, skippedAt: [] });
    await auditSchedule(client, schedule, { event: 'run', by: params, jobId });
    return { jobId };
  });
  reportMoves(engine.events, moves);
  return run;
}

const overlapping = (key: string, jobId: string): string =>
  `Job ${jobId} of the schedule "${key}" has not ended, and overlap is skip. Wait for the job, cancel it, or change overlap.`;
