export type IngestLogLevel = 'info' | 'warn' | 'error';

/** A line of the log of an ingest job, before it has a place in the stream `jobs.logs`. */
export type IngestLogLine = {
  readonly level: IngestLogLevel;
  /** What happened, for programs: `resource.completed`. */
  readonly event: string;
  readonly resourceId?: string;
  /** What happened, for people. */
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
};
