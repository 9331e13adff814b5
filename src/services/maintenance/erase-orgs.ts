import type { Engine } from '../../engine/engine.ts';
import { reportMoves } from '../../engine/report-moves.ts';
import { deleteProducer, listProducers } from '../../ledger/access/producers.ts';
import { isUnaudited } from '../../ledger/audit/audit-lag.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { cancelFreeJobs } from '../../ledger/jobs/cancel-jobs.ts';
import { endErasure, noteSwept, putOffErasure, runningJobsOf } from '../../ledger/upkeep/end-erasure.ts';
import { type DueErasure, dueErasures, eraseStep } from '../../ledger/upkeep/erase-org.ts';
import { ACTOR, type ErasedObjects, REASON } from './erase-objects.ts';
import type { TaskStep } from './maintenance-task.ts';

export type ErasureParts = {
  readonly engine: Engine;
  /** Remove objects of an org before the rows that say where they are. */
  readonly objects: readonly ((erasure: { orgId: string; isGraceOver: boolean }) => Promise<ErasedObjects>)[];
};

const ORGS_AT_ONCE = 20;
const CANCELLED_AT_ONCE = 500;
/** Something of the org is held: a handler has time to stop, or a transaction has locked a row. */
const HELD_MS = 1_000;

/** Makes one step for each org that is being deleted. `hasMore`: there may be more to remove right now. */
export async function eraseOrgs(parts: ErasureParts): Promise<TaskStep> {
  const due = await dueErasures(parts.engine.database.maintenance, ORGS_AT_ONCE);
  let removed = 0;
  for (const erasure of due) removed += await eraseSome(parts, erasure);
  return { removed, hasMore: due.length > 0 };
}

/** Returns how many rows and objects were removed. */
async function eraseSome(parts: ErasureParts, erasure: DueErasure): Promise<number> {
  const { engine, objects } = parts;
  const { maintenance } = engine.database;
  const { orgId } = erasure;
  await stopWork(engine, orgId);
  let removed = 0;
  for (const erase of objects) {
    const erased = await erase(erasure);
    removed += erased.removed;
    if (erased.isHeld && !erased.hasMore) await putOffErasure(maintenance, orgId, HELD_MS);
    // The rows of the jobs say where the objects are.
    if (erased.hasMore || erased.isHeld) return removed;
  }
  // What happened to the jobs is in the audit trail before they are gone.
  if (await isUnaudited(maintenance, orgId)) {
    await putOffErasure(maintenance, orgId, HELD_MS);
    return removed;
  }
  const { kind, rows } = await eraseStep(maintenance, orgId);
  if (kind === 'clean') await endOf(engine, erasure);
  else if (kind === 'waiting' && rows === 0) await putOffErasure(maintenance, orgId, HELD_MS);
  return removed + rows;
}

/** Asks handlers to stop, and takes the database roles of producers. */
async function stopWork(engine: Engine, orgId: string): Promise<void> {
  const { maintenance } = engine.database;
  const ids = await runningJobsOf(maintenance, orgId, CANCELLED_AT_ONCE);
  if (ids.length > 0) {
    const how = { actor: ACTOR, reason: REASON, force: true };
    const cancelled = await cancelFreeJobs(maintenance, { orgId, projectId: null, ids, ...how });
    reportMoves(
      engine.events,
      cancelled.map((each) => each?.moved),
    );
    engine.hint('cancel');
  }
  for (const producer of await listProducers(maintenance)) {
    if (producer.orgId !== orgId) continue;
    // Without its row a role can publish nothing. The runbook says how to remove one that Millrace may not drop.
    await deleteProducer(maintenance, producer.role).catch((error) => engine.events.emit('error', { error, where: 'deletion of an org' }));
  }
}

/** Removes the org itself, in the transaction that writes who asked for it and how much was removed. */
async function endOf({ database }: Engine, { orgId, isEnded }: DueErasure): Promise<void> {
  if (isEnded) return noteSwept(database.maintenance, orgId);
  await inTransaction(database.maintenance, async (client) => {
    const ended = await endErasure(client, orgId);
    if (ended === null) return;
    const { slug, requestedBy, requestedAt, rowsRemoved, jobsRemoved, objectsRemoved } = ended;
    const details = { name: slug, requested_at: requestedAt.toISOString(), rows: rowsRemoved, jobs: jobsRemoved, objects: objectsRemoved };
    const requester = { actor: requestedBy ?? ACTOR, requestId: null };
    await recordActions(client, [{ orgId, event: 'org.erased', requester, details }]);
  });
}
