import type { Config } from '../config/load-config.ts';
import type { ArtifactStorage } from '../engine/artifacts/artifact-storage.ts';
import type { ObjectStore } from '../objects/object-store.ts';

/** The place of artifacts is the object store of downloads. */
export const artifactStorage = (config: Config, store: ObjectStore, admit?: ArtifactStorage['admit']): ArtifactStorage => ({
  store,
  ...config.artifacts,
  ...(admit === undefined ? {} : { admit }),
});
