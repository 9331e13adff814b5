/** The streams of the ingest door. */
export const STREAMS = ['jobs.tasks', 'jobs.logs', 'jobs.dlq'] as const;

export type StreamName = (typeof STREAMS)[number];

/** An entry that gets its offset after its transaction was committed. */
export type NewEntry = {
  readonly stream: StreamName;
  readonly orgId: string;
  readonly jobId: string;
  readonly body: Readonly<Record<string, unknown>>;
};

export type StreamEntry = {
  readonly offset: number;
  readonly at: Date;
  readonly jobId: string;
  readonly body: Readonly<Record<string, unknown>>;
};

export type StreamRead = {
  readonly stream: StreamName;
  /** Only entries of this job. */
  readonly jobId?: string;
  /** The org of the job, if it is known: a lock against entries of other orgs. */
  readonly orgId?: string;
  /** The first offset to return. */
  readonly from: number;
  readonly limit: number;
};

/**
 * An append-only log. Offsets grow by one and are given to committed entries only, so a reader that continues after the last offset it saw
 * misses nothing. PostgreSQL implements it; another log, such as NATS JetStream, can take its place.
 */
export type StreamLog = {
  append(entries: readonly NewEntry[]): Promise<void>;
  read(read: StreamRead): Promise<StreamEntry[]>;
  /** The offset that the next entry gets. */
  head(stream: StreamName): Promise<number>;
  /** Removes old entries, at most `limit`, and returns how many. */
  trim(stream: StreamName, params: { olderThanMs: number; limit: number }): Promise<number>;
};
