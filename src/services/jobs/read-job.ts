import { isUuid } from '../../core/ids.ts';
import { maskedPayload } from '../../core/ingest/masking.ts';
import type { Job, JobResult, JobSummary, StateTransition } from '../../core/job.ts';
import type { Owner } from '../../core/owner.ts';
import { decodePayload } from '../../core/payload.ts';
import type { Engine } from '../../engine/engine.ts';

/** A job without its payload, with its result decoded. */
export type JobReport<R = unknown> = Omit<JobSummary, 'result'> & {
  /** Present on request, once the job has ended after at least one attempt. */
  readonly result?: Omit<JobResult, 'output'> & { readonly output: R | null };
  readonly history?: readonly StateTransition[];
};

/** A job with its payload and result decoded. */
export type JobView<P = unknown, R = unknown> = JobReport<R> & {
  /** The payload that was submitted. Secrets in the headers and the URL of a download are masked. */
  readonly payload: P;
};

export type ReadJobParams = Owner & { id: string; includeResult?: boolean; includeHistory?: boolean };

/** Returns a job without its payload, or null if the owner has no such job. */
export async function readJob(engine: Engine, params: ReadJobParams): Promise<JobReport | null> {
  if (!isUuid(params.id)) return null;
  const job = await engine.reader.get(params, params.id, { result: params.includeResult });
  return job === null ? null : withHistory(engine, toReport(job), params);
}

/** Like `readJob`, but with the payload. */
export async function readJobView(engine: Engine, params: ReadJobParams): Promise<JobView | null> {
  if (!isUuid(params.id)) return null;
  const job = await engine.reader.get(params, params.id, { payload: true, result: params.includeResult });
  return job === null ? null : withHistory(engine, toView(job), params);
}

async function withHistory<Read extends JobReport>(engine: Engine, job: Read, params: ReadJobParams): Promise<Read> {
  if (!params.includeHistory) return job;
  return { ...job, history: await engine.reader.history(params, job.id) };
}

export const toView = ({ payload, ...job }: Job): JobView => ({
  ...toReport(job),
  payload: maskedPayload(job.type, decodePayload(payload)),
});

function toReport({ result, ...job }: JobSummary): JobReport {
  if (result === undefined) return job;
  return { ...job, result: { ...result, output: result.output === null ? null : decodePayload(result.output) } };
}
