/** What the writer of a registration is told about the job that assigns. */
export type AssigningJob = {
  /** The id of the job. */
  readonly jobId: string;
  /** The org of the job. */
  readonly orgId: string;
  /** The project of the job. */
  readonly projectId: string | null;
  /** The attempt that assigns. */
  readonly attemptId: string;
  /** The same for every attempt of the job, so that a repeat can be recognised. */
  readonly idempotencyKey: string;
};

/** Stores an assignment. The application supplies it with the handler, because assignments are its own data. */
export type AssignmentWriter = (assignment: unknown, job: AssigningJob) => Promise<void> | void;

/** Writes assignments for a planning job that was commanded to, and whose type was granted it. */
export type Assignments = {
  /** Throws FORBIDDEN without the command in the payload, the grant of the operator, or the category `planning`. */
  write(assignment: unknown): Promise<void>;
};
