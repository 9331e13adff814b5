import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { chunksOf, PartBuffer } from './body.ts';
import { checkDescription, RESERVED_PREFIX, requireBucket, requireName } from './object-names.ts';
import type { Body, ByteRange, Description, ObjectInfo, ObjectName, ObjectStore, PutOptions, Upload, Written } from './object-store.ts';
import { ObjectStoreError, refuseSize } from './object-store-error.ts';
import { createClient, type S3Options } from './s3-client.ts';
import { isMissing, onS3, statusOf, unlessMissing } from './s3-errors.ts';
import { headersOf, infoOf, plainEtag, totalSize } from './s3-headers.ts';
import { type Listed, listPage } from './s3-list.ts';
import { PART_BYTES, S3Multipart } from './s3-multipart.ts';
import { S3Upload, sweepS3Uploads } from './s3-upload.ts';

/** Objects in a service that speaks the S3 protocol. Buckets must exist. */
export class S3Store implements ObjectStore {
  readonly #client: S3Client;

  constructor(options: S3Options) {
    this.#client = createClient(options);
  }

  async put(name: ObjectName, body: Body, options: PutOptions = {}): Promise<Written> {
    requireS3Name(name);
    const description = checkDescription(options);
    const { signal } = options;
    const buffer = new PartBuffer(PART_BYTES);
    let multipart: S3Multipart | null = null;
    let sending: Promise<void> = Promise.resolve();
    let size = 0;
    try {
      for await (const chunk of chunksOf(body, signal)) {
        size += chunk.byteLength;
        for (const part of buffer.add(chunk)) {
          multipart ??= await S3Multipart.create({ client: this.#client, name, description, signal });
          await sending;
          // One part is sent while the next one is gathered.
          sending = multipart.send(part);
          sending.catch(() => undefined);
        }
      }
      await sending;
      refuseSize(options.size, size);
      const rest = buffer.take();
      if (multipart === null) return await this.#putWhole(name, rest, options);
      if (rest.byteLength > 0) await multipart.send(rest);
      return { size, etag: plainEtag(await multipart.complete()) };
    } catch (error) {
      await sending.catch(() => undefined);
      await multipart?.abort();
      throw error;
    }
  }

  async #putWhole(name: ObjectName, bytes: Uint8Array, options: PutOptions): Promise<Written> {
    const headers = headersOf(checkDescription(options));
    const command = new PutObjectCommand({ Bucket: name.bucket, Key: name.key, Body: bytes, ...headers });
    const { ETag: etag } = await onS3(this.#client.send(command, { abortSignal: options.signal }), options.signal);
    return { size: bytes.byteLength, etag: plainEtag(etag) };
  }

  async get(name: ObjectName, range?: ByteRange): Promise<{ info: ObjectInfo; body: Readable } | null> {
    requireS3Name(name);
    const Range = range === undefined ? undefined : `bytes=${range.start}-${range.end ?? ''}`;
    try {
      const response = await this.#client.send(new GetObjectCommand({ Bucket: name.bucket, Key: name.key, Range }));
      const info = infoOf(name, totalSize(response.ContentRange, response.ContentLength), response);
      return { info, body: response.Body as Readable };
    } catch (error) {
      if (isMissing(error)) return null;
      if (statusOf(error) !== 416) return onS3(Promise.reject(error));
      const info = await this.head(name);
      return info === null ? null : { info, body: Readable.from([]) };
    }
  }

  async head(name: ObjectName): Promise<ObjectInfo | null> {
    requireS3Name(name);
    const response = await unlessMissing(this.#client.send(new HeadObjectCommand({ Bucket: name.bucket, Key: name.key })));
    return response === null ? null : infoOf(name, response.ContentLength ?? 0, response);
  }

  /** Leaves out the parts of uploads. */
  async list({ bucket, prefix, after, limit }: Parameters<ObjectStore['list']>[0]): ReturnType<ObjectStore['list']> {
    requireBucket(bucket);
    const found: Listed[] = [];
    let from = after;
    for (;;) {
      const { items, hasMore } = await listPage({ client: this.#client, bucket, prefix, after: from, limit: limit + 1 - found.length });
      found.push(...items.filter(({ key }) => !key.startsWith(RESERVED_PREFIX)));
      const last = items.at(-1)?.key;
      if (found.length > limit || !hasMore || last === undefined) break;
      // "0" is the character after "/", so this skips all parts of uploads.
      from = last.startsWith(RESERVED_PREFIX) ? `${RESERVED_PREFIX.slice(0, -1)}0` : last;
    }
    const items = found.slice(0, limit).map(({ key, size, modifiedAt }) => ({ key, size, modifiedAt }));
    return { items, next: found.length > limit ? (items.at(-1)?.key ?? null) : null };
  }

  /** The protocol does not say whether there was an object, so this asks first. */
  async delete(name: ObjectName): Promise<boolean> {
    const existed = (await this.head(name)) !== null;
    await onS3(this.#client.send(new DeleteObjectCommand({ Bucket: name.bucket, Key: name.key })));
    return existed;
  }

  async upload(name: ObjectName, { uploadId, ...description }: Description & { readonly uploadId: string }): Promise<Upload> {
    requireS3Name(name);
    return S3Upload.open({ client: this.#client, name, uploadId, description });
  }

  async sweepUploads({ bucket, before, limit }: { bucket: string; before: Date; limit: number }): Promise<number> {
    requireBucket(bucket);
    await this.#abortMultiparts(bucket, before);
    return sweepS3Uploads({ client: this.#client, bucket, before, limit });
  }

  /** Best effort: some services do not list them. They hold parts of `put` calls whose process crashed. */
  async #abortMultiparts(Bucket: string, before: Date): Promise<void> {
    const listed = await this.#client.send(new ListMultipartUploadsCommand({ Bucket })).catch(() => null);
    for (const { Key, UploadId, Initiated } of listed?.Uploads ?? []) {
      if (Initiated === undefined || Initiated >= before) continue;
      await this.#client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId })).catch(() => undefined);
    }
  }

  async check(bucket: string): Promise<void> {
    requireBucket(bucket);
    try {
      await this.#client.send(new HeadBucketCommand({ Bucket: bucket }));
    } catch (error) {
      if (statusOf(error) === 404) throw new ObjectStoreError('BUCKET_MISSING', `the bucket ${bucket} does not exist`);
      await onS3(Promise.reject(error));
    }
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }
}

/** Proxies and services resolve dots as folders do, so a key could leave its bucket. Services differ about NUL. */
function requireS3Name(name: ObjectName): void {
  requireName(name);
  const isRefused = name.key.includes('\0') || name.key.split('/').some((segment) => segment === '.' || segment === '..');
  if (isRefused) throw new ObjectStoreError('INVALID_NAME', 'a key in S3 must not contain NUL, or "." or ".." between slashes');
}
