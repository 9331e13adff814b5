/** What the ingest door needs of an object store. */
export type ManifestStore = {
  /** Resolves when the object is durable. */
  put(name: { bucket: string; key: string }, bytes: Uint8Array, options?: { contentType?: string }): Promise<unknown>;
  delete(name: { bucket: string; key: string }): Promise<unknown>;
  /** Rejects if the bucket cannot be written now. */
  check(bucket: string): Promise<unknown>;
};
