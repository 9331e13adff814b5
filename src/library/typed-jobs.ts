import type { Submission } from '../core/submission.ts';
import type { JobContext, SpawnOptions } from '../engine/work/job-context.ts';
import type { JobFilter } from '../ledger/search/search-jobs.ts';
import type { JobView } from '../services/jobs/read-job.ts';
import type { SubmissionResult } from '../services/jobs/submission-result.ts';

/** What each job type carries and gives back: `{ email: { payload: Email; result: Receipt } }`. */
// biome-ignore lint/suspicious/noExplicitAny: the widest map of job types there is
export type JobTypes = Record<string, { payload: any; result?: any }>;

export type TypeOf<Jobs> = Extract<keyof Jobs, string>;
export type PayloadOf<Jobs extends JobTypes, T extends TypeOf<Jobs>> = Jobs[T]['payload'];
export type ResultOf<Jobs extends JobTypes, T extends TypeOf<Jobs>> = Jobs[T] extends { result: infer R } ? R : unknown;

export type SubmissionOf<Jobs extends JobTypes> = {
  [T in TypeOf<Jobs>]: Omit<Submission<PayloadOf<Jobs, T>>, 'type'> & { readonly type: T };
}[TypeOf<Jobs>];

declare const typeOfJob: unique symbol;

/** The id of a job, which knows the job's type where it comes from a submission. It is a string and nothing else. */
export type JobId<T extends string = string> = string & { readonly [typeOfJob]?: T };

/** What a submitter learns at once. */
export type Submitted<T extends string> = SubmissionResult & { readonly jobId: JobId<T> };

/** A job as people read it. Of several types, `job.type` tells which payload and which result it has. */
export type JobOf<Jobs extends JobTypes, T extends TypeOf<Jobs> = TypeOf<Jobs>> =
  string extends TypeOf<Jobs> ? JobView : ViewsOf<Jobs, T>;

type ViewsOf<Jobs extends JobTypes, T extends TypeOf<Jobs>> =
  T extends TypeOf<Jobs> ? JobView<PayloadOf<Jobs, T>, ResultOf<Jobs, T>> & { readonly type: T } : never;

/** A filter that names the types it is for finds jobs of those types. */
export type FilterOf<T extends string> = Omit<JobFilter, 'types'> & { types?: readonly T[] };

/** What a handler is given beside its payload: it spawns the jobs that the map of types knows. */
export type ContextOf<Jobs extends JobTypes> = Omit<JobContext, 'spawn'> & {
  /** Creates a child job and answers its id. */
  spawn<T extends TypeOf<Jobs>>(
    submission: SubmissionOf<Jobs> & { readonly type: T },
    options?: SpawnOptions,
  ): Promise<JobId<T>>;
};
