import type { Config } from '../config/load-config.ts';
import { AppError } from '../core/errors.ts';
import { FolderStore } from '../objects/folder-store.ts';
import type { ObjectStore } from '../objects/object-store.ts';

/** The object store of the configuration. It opens no connection before the first use. The S3 client is loaded only where it is used. */
export async function openObjectStore({ objects }: Pick<Config, 'objects'>): Promise<ObjectStore> {
  const { kind, folder, endpoint, region, accessKey, secretKey, forcePathStyle } = objects;
  if (kind === 'folder') return new FolderStore(folder);
  if (accessKey === null || secretKey === null) {
    const message =
      'objects.kind is "s3", which needs objects.access_key and objects.secret_key. Set both, or MILLRACE_OBJECTS_ACCESS_KEY and MILLRACE_OBJECTS_SECRET_KEY.';
    throw new AppError('INVALID_CONFIG', { message });
  }
  const { S3Store } = await import('../objects/s3-store.ts');
  return new S3Store({ endpoint: endpoint ?? undefined, region, accessKeyId: accessKey, secretAccessKey: secretKey, forcePathStyle });
}
