import { join } from 'node:path';
import { DEFAULT_ARTIFACT_BYTES, DEFAULT_ARTIFACT_RETENTION_MS } from '../core/artifact.ts';
import { type DurationInput, durationMs } from '../core/duration.ts';
import type { Issues } from '../core/issues.ts';
import { isRecord, membersOf, refuseUnknown } from '../core/known-members.ts';
import { readDuration } from '../core/submission-fields.ts';
import type { ArtifactStorage } from '../engine/artifacts/artifact-storage.ts';
import { FolderStore } from '../objects/folder-store.ts';
import type { ObjectStore } from '../objects/object-store.ts';

/** A service that speaks the S3 protocol. */
export type S3Option = {
  /** Its address. Default: the one of AWS. */
  endpoint?: string;
  /** Default: `us-east-1`. */
  region?: string;
  /** The id of the access key. */
  accessKey: string;
  /** The secret of the access key. */
  secretKey: string;
  /** True: put the bucket into the path and not into the host name, as most services other than AWS need it. */
  forcePathStyle?: boolean;
};

/** Where artifacts are kept: give `folder` or `s3`. */
export type ObjectsOption = {
  /** A folder that all processes share. */
  folder?: string;
  /** A service that speaks the S3 protocol. */
  s3?: S3Option;
  /** Default: `fetchbox`, as in the configuration of the program. */
  bucket?: string;
  /** The largest artifact. Default: 5 GB. */
  maxBytes?: number;
  /** How long an artifact is kept. Default: 30 days. */
  retention?: DurationInput;
};

const MEMBERS = membersOf<ObjectsOption>({ folder: true, s3: true, bucket: true, maxBytes: true, retention: true });
const S3_MEMBERS = membersOf<S3Option>({ endpoint: true, region: true, accessKey: true, secretKey: true, forcePathStyle: true });
const DEFAULT_BUCKET = 'fetchbox';
const DEFAULT_REGION = 'us-east-1';

export function refuseObjects(objects: ObjectsOption, issues: Issues): void {
  if (!isRecord(objects)) {
    issues.add('objects', 'INVALID_TYPE', 'must be an object, such as { folder: "/srv/objects" }');
    return;
  }
  const { folder, s3, bucket, maxBytes, retention } = objects as ObjectsOption;
  refuseUnknown(objects, MEMBERS, issues, 'objects.');
  if ((folder === undefined) === (s3 === undefined)) issues.add('objects', 'INVALID_VALUE', 'must have either folder or s3');
  if (folder !== undefined && (typeof folder !== 'string' || folder === ''))
    issues.add('objects.folder', 'INVALID_TYPE', 'must be the path of a folder');
  if (bucket !== undefined && typeof bucket !== 'string') issues.add('objects.bucket', 'INVALID_TYPE', 'must be a string');
  if (maxBytes !== undefined && (!Number.isInteger(maxBytes) || maxBytes < 1))
    issues.add('objects.maxBytes', 'OUT_OF_RANGE', 'must be an integer of at least 1');
  if (retention !== undefined) readDuration(retention, 'objects.retention', issues);
  if (s3 !== undefined) refuseS3(s3, issues);
}

function refuseS3(s3: S3Option, issues: Issues): void {
  if (!isRecord(s3)) {
    issues.add('objects.s3', 'INVALID_TYPE', 'must be an object');
    return;
  }
  refuseUnknown(s3, S3_MEMBERS, issues, 'objects.s3.');
  for (const name of ['accessKey', 'secretKey'] as const) {
    const given = (s3 as S3Option)[name];
    if (typeof given !== 'string' || given === '') issues.add(`objects.s3.${name}`, 'REQUIRED', 'is required and must be a string');
  }
}

/** Null: this process has no place for artifacts. `home` is the data folder of the embedded server. */
export async function openArtifacts(objects: ObjectsOption | undefined, home: string | null): Promise<ArtifactStorage | null> {
  const given = objects ?? (home === null ? null : { folder: join(home, 'objects') });
  if (given === null) return null;
  const { bucket = DEFAULT_BUCKET, maxBytes = DEFAULT_ARTIFACT_BYTES, retention } = given as ObjectsOption;
  const retentionMs = retention === undefined ? DEFAULT_ARTIFACT_RETENTION_MS : durationMs(retention, 'objects.retention');
  return { store: await openStore(given), bucket, maxBytes, retentionMs };
}

/** It opens no connection before the first use. The S3 client is loaded only where it is used. */
async function openStore({ folder, s3 }: ObjectsOption): Promise<ObjectStore> {
  if (s3 === undefined) return new FolderStore(folder as string);
  const { endpoint, region = DEFAULT_REGION, accessKey: accessKeyId, secretKey: secretAccessKey, forcePathStyle = false } = s3;
  const { S3Store } = await import('../objects/s3-store.ts');
  return new S3Store({ endpoint, region, accessKeyId, secretAccessKey, forcePathStyle });
}
