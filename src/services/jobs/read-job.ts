import { isUuid } from '../../core/ids.ts';
import type { Job, JobResult, StateTransition } from '../../core/job.ts';
import { decodePayload } from '../../core/payload.ts';
import type { Engine } from '../../engine/engine.ts';

/** A job as people read it: its payload and result decoded. */
export type JobView<P = unknown, R = unknown> = Omit<Job, 'payload' | 'result'> & {
  readonly payload: P;
  /** Only when asked for, and only once the job has ended after at least one attempt. */
  readonly result?: Omit<JobResult, 'output'> & { readonly output: R | null };
  readonly history?: readonly StateTransition[];
};

export type ReadJobParams = { orgId: string; includeResult?: boolean; includeHistory?: boolean };

export async function readJob(engine: Engine, id: string, params: ReadJobParams): Promise<JobView | null> {
  if (!isUuid(id)) return null;
  const job = await engine.reader.get(params.orgId, id);
  if (job === null) return null;
  const view = toView(job, params.includeResult ?? false);
  if (!params.includeHistory) return view;
  return { ...view, history: await engine.reader.history(params.orgId, id) };
}

export function toView(job: Job, includeResult: boolean): JobView {
  const { payload, result, ...rest } = job;
  const view: JobView = { ...rest, payload: decodePayload(payload) };
  if (!includeResult || result === undefined) return view;
  return { ...view, result: { ...result, output: result.output === null ? null : decodePayload(result.output) } };
}
