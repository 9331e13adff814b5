import { type Artifact, noSuchArtifact, type ObjectPlace, type StoredBytes } from '../../core/artifact.ts';
import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { type Owner, reaches } from '../../core/owner.ts';
import { requireStorage } from '../../engine/artifacts/artifact-storage.ts';
import type { Engine } from '../../engine/engine.ts';
import { type ArtifactPage, type FoundArtifact, findArtifact, listArtifacts } from '../../ledger/artifacts/artifacts.ts';

export type { FoundArtifact };

/** Returns an artifact that the owner reaches. Throws NOT_FOUND for every other, also for those of other orgs. */
export async function readArtifact(engine: Engine, { id, ...owner }: Owner & { id: string }): Promise<FoundArtifact> {
  const found = isUuid(id) ? await findArtifact(engine.database.reads.of(owner.orgId), id) : null;
  if (found === null || found.artifact.orgId !== owner.orgId || !reaches(owner, found.artifact)) throw noSuchArtifact(id);
  return found;
}

export type ListParams = Owner & { readonly jobId: string; readonly limit: number; readonly cursor?: string };

/** Returns a page of the artifacts of a job, oldest first. Null: the owner has no such job. Artifacts may outlive their job. */
export async function listJobArtifacts(engine: Engine, params: ListParams): Promise<ArtifactPage | null> {
  const { orgId, projectId, jobId, limit, cursor = null } = params;
  if (!isUuid(jobId)) return null;
  const page = await listArtifacts(engine.database.reads.of(orgId), { orgId, projectId }, { jobId, limit, cursor });
  if (page.artifacts.length > 0 || cursor !== null) return page;
  return (await engine.reader.get({ orgId, projectId }, jobId)) === null ? null : page;
}

/** The oldest artifacts of a job that the owner reaches. */
export async function firstArtifacts(engine: Engine, { orgId, projectId, jobId, limit }: ListParams): Promise<readonly Artifact[]> {
  return (await listArtifacts(engine.database.reads.of(orgId), { orgId, projectId }, { jobId, limit, cursor: null })).artifacts;
}

export type ContentParams = { readonly artifact: Artifact; readonly place: ObjectPlace; readonly range?: { start: number; end: number } };

/** Opens the bytes of an artifact. The caller reads them to the end, or destroys them. */
export async function openContent(engine: Engine, { artifact, place, range }: ContentParams): Promise<StoredBytes> {
  const { store } = requireStorage(engine.artifacts);
  const found = await store.get(place, range).catch((cause: unknown) => {
    throw new AppError('UNAVAILABLE', { message: 'The object store cannot be read now. Try again.', cause });
  });
  if (found === null)
    throw new AppError('NOT_FOUND', { message: `The bytes of artifact ${artifact.id} are no longer in the object store.` });
  if (found.info.size === artifact.size) return found.body;
  found.body.destroy();
  throw new AppError('INTERNAL_ERROR', {
    message: `The object of artifact ${artifact.id} has ${found.info.size} bytes and not ${artifact.size}.`,
  });
}
