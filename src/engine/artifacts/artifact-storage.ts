import type { ArtifactStore } from '../../core/artifact.ts';
import { AppError } from '../../core/errors.ts';

/** Where a process keeps artifacts, and how many bytes it takes. */
export type ArtifactStorage = {
  readonly store: ArtifactStore;
  readonly bucket: string;
  readonly maxBytes: number;
  readonly retentionMs: number;
  /** Returns the error for an org that has used its share of the storage. */
  admit?(load: { readonly orgId: string; readonly bytes: number }): AppError | null | Promise<AppError | null>;
};

const NO_STORAGE =
  'This process has no object store for artifacts. Open Millrace with the option objects: { folder: "/path/that/all/processes/share" }, or run the handler with "millrace work".';

export function requireStorage(storage: ArtifactStorage | null): ArtifactStorage {
  if (storage === null) throw new AppError('UNAVAILABLE', { message: NO_STORAGE });
  return storage;
}
