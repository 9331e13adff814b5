import type { IngestSettings } from '../../core/ingest/job-type.ts';
import { manifestKeysOf } from '../../core/ingest/object-key.ts';
import type { Engine } from '../../engine/engine.ts';
import { reportMoves } from '../../engine/report-moves.ts';
import {
  eraseIngestJob,
  type IngestToErase,
  ingestJobsToErase,
  ingestTasksToErase,
  type TaskToErase,
} from '../../ledger/ingest/erase-ingest.ts';
import { cancelFreeJobs } from '../../ledger/jobs/cancel-jobs.ts';

/** The part of the object store that the deletion of an org needs. */
type ErasableStore = {
  list(params: { bucket: string; prefix: string; limit: number }): Promise<{ items: readonly { readonly key: string }[] }>;
  delete(name: { bucket: string; key: string }): Promise<boolean>;
};

export type ObjectParts = { readonly engine: Engine; readonly store: ErasableStore; readonly settings: Pick<IngestSettings, 'jobTypes'> };

/** `isHeld`: a download runs and has time to stop. */
export type ErasedObjects = { readonly removed: number; readonly hasMore: boolean; readonly isHeld: boolean };

const JOBS_AT_ONCE = 20;
const LISTED_AT_ONCE = 1_000;
const CANCELLED_AT_ONCE = 500;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';
export const ACTOR = 'system:maintenance';
export const REASON = 'the org is being deleted';

/**
 * Removes the objects of some ingest jobs of an org, and then these jobs. The objects go first: after a crash the row still says where they
 * are. No download may write an object afterwards, so its task is cancelled before.
 */
export async function eraseIngestObjects(
  parts: ObjectParts,
  { orgId, isGraceOver }: { orgId: string; isGraceOver: boolean },
): Promise<ErasedObjects> {
  const { maintenance } = parts.engine.database;
  const jobs = await ingestJobsToErase(maintenance, { orgId, after: FIRST_ID, limit: JOBS_AT_ONCE });
  let removed = 0;
  let held = 0;
  for (const job of jobs) {
    const tasks = await ingestTasksToErase(maintenance, job.id);
    await cancelOpen(parts, orgId, tasks);
    if (!isGraceOver && tasks.some(({ isRunning }) => isRunning)) {
      held++;
      continue;
    }
    const objects = await removeObjects(parts, job, tasks);
    await eraseIngestJob(maintenance, { id: job.id, orgId, objects });
    removed += objects + 1;
  }
  return { removed, hasMore: jobs.length > held, isHeld: held > 0 };
}

async function cancelOpen({ engine }: ObjectParts, orgId: string, tasks: readonly TaskToErase[]): Promise<void> {
  const open = tasks.filter(({ isOpen }) => isOpen).map(({ id }) => id);
  for (let at = 0; at < open.length; at += CANCELLED_AT_ONCE) {
    const ids = open.slice(at, at + CANCELLED_AT_ONCE);
    const how = { actor: ACTOR, reason: REASON, force: true };
    const cancelled = await cancelFreeJobs(engine.database.maintenance, { orgId, projectId: null, ids, ...how });
    reportMoves(
      engine.events,
      cancelled.map((each) => each?.moved),
    );
  }
  if (open.length > 0) engine.hint('cancel');
}

/** The manifest, what the tasks name, and everything under the folder of the job. */
async function removeObjects({ store, settings }: ObjectParts, job: IngestToErase, tasks: readonly TaskToErase[]): Promise<number> {
  const { id, bucket, jobType } = job;
  const { metadata, manifest } = manifestKeysOf(jobType, id);
  let removed = 0;
  const remove = async (name: { bucket: string; key: string }): Promise<void> => {
    if (await store.delete(name)) removed++;
  };
  await remove({ bucket, key: metadata });
  await remove({ bucket, key: manifest });
  for (const task of tasks) if (task.bucket !== null && task.key !== null) await remove({ bucket: task.bucket, key: task.key });
  const type = settings.jobTypes.get(jobType);
  for (const place of new Set([bucket, type?.bucket ?? bucket])) {
    // Tasks are forgotten after their retention. Their objects lie under the id of the job.
    const prefix = `${type?.keyPrefix ?? `${jobType}/`}${id}/`;
    for (;;) {
      const { items } = await store.list({ bucket: place, prefix, limit: LISTED_AT_ONCE });
      for (const { key } of items) await remove({ bucket: place, key });
      if (items.length < LISTED_AT_ONCE) break;
    }
  }
  return removed;
}

/** Removes the artifacts of an org from the store. Their rows go with the other rows of the org. */
export async function eraseArtifactObjects(
  { store, bucket }: { readonly store: ErasableStore; readonly bucket: string },
  { orgId }: { orgId: string },
): Promise<ErasedObjects> {
  const { items } = await store.list({ bucket, prefix: `artifacts/${orgId}/`, limit: LISTED_AT_ONCE });
  let removed = 0;
  for (const { key } of items) if (await store.delete({ bucket, key })) removed++;
  return { removed, hasMore: items.length === LISTED_AT_ONCE, isHeld: false };
}
