import { requireName } from './object-names.ts';
import type { ObjectName } from './object-store.ts';
import { ObjectStoreError } from './object-store-error.ts';

const URL_OF_OBJECT = /^s3:\/\/([^/]+)\/(.+)$/s;

/** `s3://bucket/key`, with the key as it is: the tools of S3 do not percent-encode it either. */
export function objectUrl(name: ObjectName): string {
  requireName(name);
  return `s3://${name.bucket}/${name.key}`;
}

export function parseObjectUrl(url: string): ObjectName {
  const [, bucket, key] = URL_OF_OBJECT.exec(url) ?? [];
  if (bucket === undefined || key === undefined) {
    throw new ObjectStoreError('INVALID_NAME', 'the address of an object must have the form s3://bucket/key');
  }
  const name = { bucket, key };
  requireName(name);
  return name;
}
