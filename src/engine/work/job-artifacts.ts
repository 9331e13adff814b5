/** A file that a job wrote or an org uploaded. It is plain JSON, so that a handler can return it or pass it on in a payload. */
export type ArtifactReference = {
  /** The id by which `read` and the queue API find the file. */
  readonly artifactId: string;
  /** The name that its writer gave it. */
  readonly name: string;
  /** The media type, such as `text/csv`. */
  readonly contentType: string;
  /** The number of bytes. */
  readonly size: number;
  /** The SHA-256 checksum of the bytes, in hexadecimal digits. */
  readonly sha256: string;
  /** When the file is removed, in ISO 8601. */
  readonly expiresAt: string;
};

/** How a file is stored. */
export type ArtifactOptions = {
  /** The media type. Default: `application/octet-stream`. */
  contentType?: string;
  /** The SHA-256 checksum that the bytes must have. A difference is an error, and nothing is stored. */
  sha256?: string;
};

/** The bytes of a file: all of them, or a stream such as a `Readable`. */
export type ArtifactBytes = Uint8Array | string | AsyncIterable<Uint8Array | string>;

/** A file that is being read. */
export type ReadArtifact = ArtifactReference & {
  /** The bytes. The end of the stream is an error if they do not have the checksum. */
  readonly body: AsyncIterable<Uint8Array>;
};

/** What handlers do with files. */
export type JobArtifacts = {
  /**
   * Stores a file of the job, as it comes, and returns a reference to it. A file with the same name that the job wrote before is replaced, so
   * that an attempt that runs again leaves one file. Throws LeaseLostError, and stores nothing, if the job no longer belongs to this worker.
   */
  write(name: string, bytes: ArtifactBytes, options?: ArtifactOptions): Promise<ArtifactReference>;
  /** Opens a file of the job's org, and of its project if it has one. Throws NOT_FOUND for every other file. */
  read(artifactId: string): Promise<ReadArtifact>;
  /** Returns the files that this job has written, oldest first. */
  list(): Promise<ArtifactReference[]>;
};
