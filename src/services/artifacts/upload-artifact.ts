import { type Artifact, type ArtifactPurpose, artifactCreated, checkContentType, problemOfName } from '../../core/artifact.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import type { Owner } from '../../core/owner.ts';
import { requireStorage } from '../../engine/artifacts/artifact-storage.ts';
import { storeArtifact } from '../../engine/artifacts/store-artifact.ts';
import type { Engine } from '../../engine/engine.ts';
import { finishArtifact, type StoredFacts } from '../../ledger/artifacts/artifacts.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';

export type UploadParams = Owner & {
  readonly name: string;
  readonly contentType: string;
  readonly purpose: ArtifactPurpose | null;
  readonly source: AsyncIterable<Uint8Array>;
  readonly expected?: { readonly sha256: string; readonly field: string };
  readonly requester: Requester;
};

/** Stores a file of an org, and returns it when it is durable. */
export async function uploadArtifact(engine: Engine, params: UploadParams): Promise<Artifact> {
  const { requester, ...upload } = params;
  const storage = requireStorage(engine.artifacts);
  const problems = [problemOfName(upload.name), checkContentType(upload.contentType)].filter((issue) => issue !== null);
  if (problems.length > 0) throw invalidRequest(...problems);
  const finish = (facts: StoredFacts) =>
    inTransaction(engine.database.api, async (client) => {
      const artifact = await finishArtifact(client, facts);
      if (artifact !== null) await recordActions(client, [artifactCreated(artifact, requester)]);
      return artifact;
    });
  const request = { ...upload, jobId: null, attempt: null, createdBy: requester.actor, finish };
  const artifact = await storeArtifact({ db: engine.database.api, storage }, request);
  if (artifact === null)
    throw new AppError('CONFLICT', { message: 'The upload took more than a day and was given up. Send the file again.' });
  return artifact;
}
