import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import type { CheckedDescription } from './object-names.ts';
import type { ObjectName } from './object-store.ts';
import { ObjectStoreError } from './object-store-error.ts';
import { isMissing, onS3, statusOf } from './s3-errors.ts';
import { headersOf } from './s3-headers.ts';

/** S3 wants at least 5 MiB for every part but the last. */
export const PART_BYTES = 8 * 1024 * 1024;
/** S3 refuses more. */
const MAX_PARTS = 10_000;

/** An object that is written in parts, and visible after the last of them. */
export class S3Multipart {
  readonly #client: S3Client;
  readonly #name: ObjectName;
  readonly #uploadId: string;
  readonly #signal: AbortSignal | undefined;
  readonly #etags: (string | undefined)[] = [];

  private constructor(params: { client: S3Client; name: ObjectName; uploadId: string; signal: AbortSignal | undefined }) {
    this.#client = params.client;
    this.#name = params.name;
    this.#uploadId = params.uploadId;
    this.#signal = params.signal;
  }

  static async create(params: {
    client: S3Client;
    name: ObjectName;
    description: CheckedDescription;
    signal?: AbortSignal | undefined;
  }): Promise<S3Multipart> {
    const { client, name, description, signal } = params;
    const command = new CreateMultipartUploadCommand({ Bucket: name.bucket, Key: name.key, ...headersOf(description) });
    const { UploadId: uploadId } = await onS3(client.send(command, { abortSignal: signal }), signal);
    if (uploadId === undefined) throw new ObjectStoreError('STORE_UNAVAILABLE', 'the store began an upload without an id');
    return new S3Multipart({ client, name, uploadId, signal });
  }

  async send(bytes: Uint8Array): Promise<void> {
    const command = new UploadPartCommand({ ...this.#nextPart(), Body: bytes });
    const number = this.#etags.push(undefined);
    const { ETag: etag } = await onS3(this.#client.send(command, { abortSignal: this.#signal }), this.#signal);
    this.#etags[number - 1] = etag;
  }

  /** Copies an object inside the store. The object must still be the one with this etag. */
  async copy(source: { key: string; etag: string }): Promise<void> {
    const command = new UploadPartCopyCommand({
      ...this.#nextPart(),
      CopySource: `${this.#name.bucket}/${source.key}`,
      CopySourceIfMatch: `"${source.etag}"`,
    });
    const number = this.#etags.push(undefined);
    try {
      const { CopyPartResult: result } = await this.#client.send(command);
      this.#etags[number - 1] = result?.ETag;
    } catch (error) {
      if (statusOf(error) !== 412 && !isMissing(error)) return onS3(Promise.reject(error));
      throw new ObjectStoreError('UPLOAD_LOST', 'the stored bytes of the upload were removed or replaced');
    }
  }

  async complete(): Promise<string | null> {
    const command = new CompleteMultipartUploadCommand({
      Bucket: this.#name.bucket,
      Key: this.#name.key,
      UploadId: this.#uploadId,
      MultipartUpload: { Parts: this.#etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 })) },
    });
    const { ETag: etag } = await onS3(this.#client.send(command, { abortSignal: this.#signal }), this.#signal);
    return etag ?? null;
  }

  /** Best effort: a sweep removes what stays. */
  async abort(): Promise<void> {
    const command = new AbortMultipartUploadCommand({ Bucket: this.#name.bucket, Key: this.#name.key, UploadId: this.#uploadId });
    await this.#client.send(command).catch(() => undefined);
  }

  #nextPart(): { Bucket: string; Key: string; UploadId: string; PartNumber: number } {
    const number = this.#etags.length + 1;
    if (number > MAX_PARTS) {
      throw new ObjectStoreError('STORE_FULL', `the object has more than ${MAX_PARTS} parts of ${PART_BYTES} bytes`);
    }
    return { Bucket: this.#name.bucket, Key: this.#name.key, UploadId: this.#uploadId, PartNumber: number };
  }
}
