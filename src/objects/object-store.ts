/** Where objects are kept: a folder (`FolderStore`) or a service that speaks the S3 protocol (`S3Store`). One test suite runs on both. */
import type { Readable } from 'node:stream';

export interface ObjectName {
  readonly bucket: string;
  /** Any text of 1 to 1024 bytes of UTF-8. */
  readonly key: string;
}

export interface ObjectInfo extends ObjectName {
  readonly size: number;
  /** Changes when the object is replaced. Its form is the store's own. */
  readonly etag: string | null;
  readonly modifiedAt: Date;
  /** Null if nobody said, as for a file that a person copied into the folder. */
  readonly contentType: string | null;
  readonly metadata: ReadonlyMap<string, string>;
}

/** What is stored with the bytes. Names of metadata are lower case; values may be any text. */
export interface Description {
  /** `application/octet-stream` if it is left out. */
  readonly contentType?: string | undefined;
  readonly metadata?: ReadonlyMap<string, string> | undefined;
}

export interface PutOptions extends Description {
  /** The number of bytes, if the caller knows it. A body of another length is refused. */
  readonly size?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export type Body = Uint8Array | AsyncIterable<Uint8Array>;

export interface Written {
  readonly size: number;
  readonly etag: string | null;
}

/** Both ends are included, as in HTTP. A range that starts after the last byte is empty. */
export interface ByteRange {
  readonly start: number;
  readonly end?: number | undefined;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  readonly modifiedAt: Date;
}

export interface ObjectStore {
  /** Writes all bytes or nothing: readers never see a part of an object. */
  put(name: ObjectName, body: Body, options?: PutOptions): Promise<Written>;
  /** The caller must read `body` to its end or destroy it, because Node ends a process that forgets an open file. `info.size` is the size of the whole object. */
  get(name: ObjectName, range?: ByteRange): Promise<{ info: ObjectInfo; body: Readable } | null>;
  head(name: ObjectName): Promise<ObjectInfo | null>;
  /** In the order of the bytes of the keys. `next` is the `after` of the next page. */
  list(params: {
    bucket: string;
    prefix: string;
    after?: string | undefined;
    limit: number;
  }): Promise<{ items: ListedObject[]; next: string | null }>;
  /** Returns whether the object existed. */
  delete(name: ObjectName): Promise<boolean>;
  /** Opens the upload with this id, or continues it. Its bytes become visible under `name` when it completes. */
  upload(name: ObjectName, options: Description & { readonly uploadId: string }): Promise<Upload>;
  /** Removes the bytes of uploads that were last written before `before`, and returns how many uploads it removed. */
  sweepUploads(params: { bucket: string; before: Date; limit: number }): Promise<number>;
  /** Throws an ObjectStoreError if the bucket cannot be used now. For health checks. */
  check(bucket: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * An upload belongs to the process that opened it last. Others get the error `UPLOAD_LOST` and cannot complete it.
 * Every upload must end with `complete`, `abort` or `close`: Node ends a process that forgets an open file. If `complete` fails, the
 * stored bytes stay, and `close` or `abort` is allowed.
 */
export interface Upload {
  /** How many bytes are stored from earlier. The writer continues there. */
  readonly offset: number;
  /** The bytes up to `offset`, so that the writer can hash them again. */
  stored(): AsyncIterable<Uint8Array>;
  /** Resolves when the caller may send more. The caller must wait for it, and must not change `chunk` before. */
  write(chunk: Uint8Array): Promise<void>;
  /** `description` replaces the one that the upload was opened with. */
  complete(description?: Description): Promise<Written>;
  /** Drops the stored bytes. */
  abort(): Promise<void>;
  /** Keeps the stored bytes, so that the upload can be continued. */
  close(): Promise<void>;
}
