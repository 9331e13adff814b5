import type { Submission } from '../core/submission.ts';
import type { JobContext, SpawnOptions } from '../engine/work/job-context.ts';
import type { JobFilter } from '../ledger/search/search-jobs.ts';
import type { JobView } from '../services/jobs/read-job.ts';
import type { SubmissionResult } from '../services/jobs/submission-result.ts';

/** The payload and result of each job type: `{ email: { payload: Email; result: Receipt } }`. */
export type JobTypes = Record<string, { payload: unknown; result?: unknown }>;

export type TypeOf<Jobs> = Extract<keyof Jobs, string>;
export type PayloadOf<Jobs extends JobTypes, T extends TypeOf<Jobs>> = Jobs[T]['payload'];
export type ResultOf<Jobs extends JobTypes, T extends TypeOf<Jobs>> = Jobs[T] extends { result: infer R } ? R : unknown;

export type SubmissionOf<Jobs extends JobTypes> = {
  [T in TypeOf<Jobs>]: Omit<Submission<PayloadOf<Jobs, T>>, 'type'> & { readonly type: T };
}[TypeOf<Jobs>];

declare const typeOfJob: unique symbol;

/** The id of a job: a string. If it comes from a submission, its TypeScript type includes the type of the job. */
export type JobId<T extends string = string> = string & { readonly [typeOfJob]?: T };

/** The result of a submission. */
export type Submitted<T extends string> = SubmissionResult & {
  /** The id of the job. It carries the type of the job for `get` and `waitFor`. */
  readonly jobId: JobId<T>;
};

/** A job with its payload and result decoded. `job.type` determines the types of both. */
export type JobOf<Jobs extends JobTypes, T extends TypeOf<Jobs> = TypeOf<Jobs>> = string extends TypeOf<Jobs> ? JobView : ViewsOf<Jobs, T>;

type ViewsOf<Jobs extends JobTypes, T extends TypeOf<Jobs>> =
  T extends TypeOf<Jobs> ? JobView<PayloadOf<Jobs, T>, ResultOf<Jobs, T>> & { readonly type: T } : never;

/** A filter by type limits the types of the jobs found. */
export type FilterOf<T extends string> = Omit<JobFilter, 'types'> & { types?: readonly T[] };

/** The context of a handler. It spawns jobs of the types in `Jobs`. */
export type ContextOf<Jobs extends JobTypes> = Omit<JobContext, 'spawn'> & {
  /** Submits a child job and returns its id. */
  spawn<T extends TypeOf<Jobs>>(submission: SubmissionOf<Jobs> & { readonly type: T }, options?: SpawnOptions): Promise<JobId<T>>;
};
