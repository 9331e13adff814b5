import { randomUUID } from 'node:crypto';
import { type Artifact, artifactKeyOf } from '../../core/artifact.ts';
import { AppError } from '../../core/errors.ts';
import { beginArtifact, discardArtifact, type NewArtifact, type StoredFacts } from '../../ledger/artifacts/artifacts.ts';
import { forgetArtifacts } from '../../ledger/artifacts/sweep-artifacts.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { ArtifactStorage } from './artifact-storage.ts';
import { MeasuredBytes, type MeasureParams } from './measured-bytes.ts';

export type StoreRequest = Omit<NewArtifact, 'id' | 'place'> &
  Pick<MeasureParams, 'source' | 'expected'> & {
    readonly signal?: AbortSignal;
    /** Shows the artifact to readers. Null: the writer may no longer do so. */
    finish(facts: StoredFacts): Promise<Artifact | null>;
  };

type Parts = { readonly db: Queryable; readonly storage: ArtifactStorage };

/**
 * Stores the bytes of a source as they come, then shows the artifact. The row of the upload is written before the first byte, so that an
 * object without an owner cannot stay behind. Returns null, and leaves nothing, if `finish` does.
 */
export async function storeArtifact({ db, storage }: Parts, request: StoreRequest): Promise<Artifact | null> {
  const { source, expected, signal, finish, ...described } = request;
  const id = randomUUID();
  const place = { bucket: storage.bucket, key: artifactKeyOf(described.orgId, id) };
  const { maxBytes, retentionMs, admit } = storage;
  const bytes = new MeasuredBytes({ source, expected, maxBytes, admit, orgId: described.orgId });
  await beginArtifact(db, { ...described, id, place });
  try {
    await storage.store.put(place, bytes, { contentType: described.contentType, signal });
  } catch (error) {
    await discard({ db, storage }, { id, ...place });
    throw bytes.ownError ?? (signal?.aborted ? signal.reason : storeFailed(error));
  }
  // An error here leaves the row to the sweeper: the statement may have taken effect.
  const artifact = await finish({ id, size: bytes.size, sha256: bytes.sha256, retentionMs });
  if (artifact === null) await discard({ db, storage }, { id, ...place });
  return artifact;
}

/** Removes what an upload left. What fails here is left to the sweeper. */
async function discard({ db, storage }: Parts, { id, ...place }: { id: string; bucket: string; key: string }): Promise<void> {
  try {
    if (!(await discardArtifact(db, id))) return;
    await storage.store.delete(place);
    await forgetArtifacts(db, [id]);
  } catch {
    // The row still leads to the object.
  }
}

function storeFailed(cause: unknown): AppError {
  const message =
    'The object store did not take the artifact, and nothing was stored. Try again, or check the store with "millrace doctor".';
  return new AppError('UNAVAILABLE', { message, cause });
}
