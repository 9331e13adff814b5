import type { DownloadStore } from '../core/ingest/download-store.ts';
import type { FetchResult, FetchTask } from '../core/ingest/fetch-task.ts';
import { storing } from './fetch-verdict.ts';

/** An object that an earlier attempt completed, with the ETag of its source. */
export type StoredVersion = Pick<FetchResult, 'bytes' | 'sha256' | 'contentType'> & { readonly etag: string };

const SHA256 = /^[0-9a-f]{64}$/;

/**
 * Looks for the object of an earlier attempt whose outcome was lost. Then a conditional request can show that it is still current. Returns
 * null if there is none, or if the resource asks for a checksum, which is verified only while the bytes arrive.
 */
export async function storedVersionOf(store: DownloadStore, task: FetchTask): Promise<StoredVersion | null> {
  if (task.tags.some(([name]) => name === 'checksum_hint')) return null;
  const { bucket, key } = task.storage;
  const object = await storing(() => store.head({ bucket, key }));
  const sha256 = object?.metadata.get('sha256');
  const etag = object?.metadata.get('source-etag');
  if (object === null || sha256 === undefined || !SHA256.test(sha256) || etag === undefined) return null;
  return { bytes: object.size, sha256, contentType: object.contentType, etag };
}
