/** What a download needs of an object store. */
export type DownloadStore = {
  head(name: StoredName): Promise<StoredObject | null>;
  /** Writes all bytes or nothing. */
  put(name: StoredName, bytes: Uint8Array, description?: StoredDescription): Promise<unknown>;
  /** Opens the upload with this id, or continues it. Its bytes become visible under `name` when it completes. */
  upload(name: StoredName, options: StoredDescription & { readonly uploadId: string }): Promise<StoreUpload>;
};

type StoredName = { readonly bucket: string; readonly key: string };
export type StoredDescription = {
  readonly contentType?: string | undefined;
  readonly metadata?: ReadonlyMap<string, string> | undefined;
};
type StoredObject = { readonly size: number; readonly contentType: string | null; readonly metadata: ReadonlyMap<string, string> };

/** After `complete`, `abort` or `close` no other call is allowed. */
export type StoreUpload = {
  /** How many bytes are stored from earlier. */
  readonly offset: number;
  /** The bytes up to `offset`. */
  stored(): AsyncIterable<Uint8Array>;
  /** Resolves when the caller may send more. */
  write(chunk: Uint8Array): Promise<void>;
  complete(description?: StoredDescription): Promise<unknown>;
  /** Drops the stored bytes. */
  abort(): Promise<void>;
  /** Keeps the stored bytes, so that the upload can be continued. */
  close(): Promise<void>;
};
