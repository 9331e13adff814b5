import type { Readable } from 'node:stream';
import { DeleteObjectCommand, GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { PartBuffer } from './body.ts';
import { checkDescription, folderOfUpload, RESERVED_PREFIX } from './object-names.ts';
import type { Description, ObjectName, Upload, Written } from './object-store.ts';
import { onS3 } from './s3-errors.ts';
import { headersOf, plainEtag } from './s3-headers.ts';
import { listAll } from './s3-list.ts';
import { PART_BYTES, S3Multipart } from './s3-multipart.ts';

/** How many parts are copied or deleted at the same time. */
const CONCURRENCY = 8;

interface Part {
  readonly key: string;
  readonly etag: string;
}

interface UploadParams {
  readonly client: S3Client;
  readonly name: ObjectName;
  readonly description: Description;
  readonly folder: string;
  readonly parts: Part[];
}

/**
 * The parts are objects of their own, `.millrace/uploads/<hash>/<number>`, because the parts of a multipart upload cannot be read
 * back. Completing copies them inside the store. The etags tell if another process replaced a part in the meantime.
 */
export class S3Upload implements Upload {
  readonly offset: number;
  readonly #params: UploadParams;
  readonly #parts: Part[];
  readonly #buffer = new PartBuffer(PART_BYTES);
  #sending: Promise<void> = Promise.resolve();

  private constructor(params: UploadParams) {
    this.#params = params;
    this.#parts = params.parts;
    this.offset = params.parts.length * PART_BYTES;
  }

  static async open(params: { client: S3Client; name: ObjectName; uploadId: string; description: Description }): Promise<S3Upload> {
    const { client, name, uploadId, description } = params;
    checkDescription(description);
    const folder = `${RESERVED_PREFIX}${folderOfUpload(uploadId)}/`;
    const parts: Part[] = [];
    const unusable: string[] = [];
    for await (const { key, etag, size } of listAll({ client, bucket: name.bucket, prefix: folder })) {
      if (key === keyOfPart(folder, parts.length) && size === PART_BYTES) parts.push({ key, etag });
      else unusable.push(key);
    }
    await deleteAll(client, name.bucket, unusable);
    return new S3Upload({ client, name, description, folder, parts });
  }

  async *stored(): AsyncGenerator<Uint8Array, void> {
    for (const { key, etag } of this.#parts.slice(0, this.offset / PART_BYTES)) {
      const command = new GetObjectCommand({ Bucket: this.#params.name.bucket, Key: key, IfMatch: `"${etag}"` });
      const { Body: body } = await onS3(this.#params.client.send(command));
      yield* body as Readable;
    }
  }

  /** One part is sent while the next one is gathered. */
  async write(chunk: Uint8Array): Promise<void> {
    for (const part of this.#buffer.add(chunk)) {
      await this.#sending;
      this.#sending = this.#store(part);
      // The next call waits for it and gets the error.
      this.#sending.catch(() => undefined);
    }
  }

  async #store(bytes: Uint8Array): Promise<void> {
    const { client, name, folder } = this.#params;
    const key = keyOfPart(folder, this.#parts.length);
    const { ETag: etag } = await onS3(client.send(new PutObjectCommand({ Bucket: name.bucket, Key: key, Body: bytes })));
    this.#parts.push({ key, etag: plainEtag(etag) ?? '' });
  }

  async complete(description: Description = this.#params.description): Promise<Written> {
    const { client, name } = this.#params;
    const checked = checkDescription(description);
    await this.#sending;
    const rest = this.#buffer.take();
    const size = this.#parts.length * PART_BYTES + rest.byteLength;
    if (this.#parts.length === 0) {
      const command = new PutObjectCommand({ Bucket: name.bucket, Key: name.key, Body: rest, ...headersOf(checked) });
      return { size, etag: plainEtag((await onS3(client.send(command))).ETag) };
    }
    const multipart = await S3Multipart.create({ client, name, description: checked });
    try {
      await inGroups(this.#parts, (part) => multipart.copy(part));
      if (rest.byteLength > 0) await multipart.send(rest);
      const etag = plainEtag(await multipart.complete());
      await this.#deleteParts().catch(() => undefined); // A sweep removes them later.
      return { size, etag };
    } catch (error) {
      await multipart.abort();
      throw error;
    }
  }

  async abort(): Promise<void> {
    await this.#sending.catch(() => undefined);
    this.#buffer.take();
    await this.#deleteParts();
  }

  async close(): Promise<void> {
    await this.#sending.catch(() => undefined);
    this.#buffer.take();
  }

  #deleteParts(): Promise<void> {
    const keys = this.#parts.map(({ key }) => key);
    return deleteAll(this.#params.client, this.#params.name.bucket, keys);
  }
}

const keyOfPart = (folder: string, index: number): string => `${folder}${String(index + 1).padStart(5, '0')}`;

/** One request for each: requests that delete many keys need checksums that not all services know. */
async function deleteAll(client: S3Client, bucket: string, keys: readonly string[]): Promise<void> {
  await inGroups(keys, async (key) => {
    await onS3(client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key })));
  });
}

async function inGroups<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let from = 0; from < items.length; from += CONCURRENCY) await Promise.all(items.slice(from, from + CONCURRENCY).map(work));
}

/** Removes the uploads of which no part was written since `before`. */
export async function sweepS3Uploads(params: { client: S3Client; bucket: string; before: Date; limit: number }): Promise<number> {
  const { client, bucket, before, limit } = params;
  let removed = 0;
  for await (const { keys, writtenAt } of uploadsOf(client, bucket)) {
    if (removed === limit) break;
    if (writtenAt >= before) continue;
    await deleteAll(client, bucket, keys);
    removed++;
  }
  return removed;
}

/** The parts of one upload follow each other in the list. */
async function* uploadsOf(client: S3Client, bucket: string): AsyncGenerator<{ keys: string[]; writtenAt: Date }, void> {
  let folder = '';
  let keys: string[] = [];
  let writtenAt = new Date(0);
  for await (const { key, modifiedAt } of listAll({ client, bucket, prefix: RESERVED_PREFIX })) {
    if (!key.startsWith(folder) || folder === '') {
      if (keys.length > 0) yield { keys, writtenAt };
      folder = key.slice(0, key.lastIndexOf('/') + 1);
      keys = [];
      writtenAt = new Date(0);
    }
    keys.push(key);
    if (modifiedAt > writtenAt) writtenAt = modifiedAt;
  }
  if (keys.length > 0) yield { keys, writtenAt };
}
