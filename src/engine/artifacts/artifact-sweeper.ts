import { forgetArtifacts, hideArtifactsOfGoneOrgs, takeDueArtifacts } from '../../ledger/artifacts/sweep-artifacts.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import { Loop } from '../loop.ts';
import type { ArtifactStorage } from './artifact-storage.ts';

const AT_ONCE = 100;
const EVERY_MS = 300_000;
const AGAIN_MS = 100;
const FIRST_WITHIN_MS = 60_000;

/**
 * Removes artifacts that have expired, uploads whose process died, and the artifacts of deleted orgs: first from the eyes of readers, then
 * the object, then the row. Returns whether there may be more.
 */
export async function sweepArtifacts(database: Pick<Database, 'maintenance'>, { store }: Pick<ArtifactStorage, 'store'>): Promise<boolean> {
  const db = database.maintenance;
  const hidden = await hideArtifactsOfGoneOrgs(db, AT_ONCE);
  const due = await takeDueArtifacts(db, AT_ONCE);
  const deleted: string[] = [];
  try {
    for (const { id, bucket, key } of due) {
      await store.delete({ bucket, key });
      deleted.push(id);
    }
  } finally {
    await forgetArtifacts(db, deleted);
  }
  return hidden === AT_ONCE || due.length === AT_ONCE;
}

type SweeperOptions = {
  database: Database;
  events: EventHub;
  /** Null: this process has no object store, and leaves the work to others. */
  storage(): ArtifactStorage | null;
};

export const createArtifactSweeper = ({ database, events, storage }: SweeperOptions): Loop =>
  new Loop({
    name: 'artifact sweeper',
    round: async () => {
      const own = storage();
      return own !== null && (await sweepArtifacts(database, own)) ? AGAIN_MS : EVERY_MS;
    },
    events,
    firstWithinMs: FIRST_WITHIN_MS,
  });
