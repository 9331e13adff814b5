import type { ExecutionState } from '../core/execution/states.ts';
import type { Answer, Credentials, ExecutionApi } from './api.ts';
import type { PlannedJob } from './plan.ts';
import type { Stats } from './stats.ts';
import type { JobWatch } from './watch-jobs.ts';
import type { Receiver } from './webhook-receiver.ts';
import type { Accepted, JobView, Problem } from './wire.ts';

/** Leave to go on: when a job should have been submitted, and whom to tell that it was. */
export type Turn = { readonly intendedMs: number; onAccepted(): void };

/** What every driver works with. */
export type World = {
  readonly api: ExecutionApi;
  readonly clients: readonly Credentials[];
  readonly receiver: Receiver;
  readonly watch: JobWatch;
  readonly stats: Stats;
  readonly timeScale: number;
  readonly signal: AbortSignal;
};

/** A job that the server accepted, and how it must have ended. */
export type ObservedJob = {
  readonly jobId: string;
  /** Null: as the catalogue says. */
  readonly expected: ExecutionState | null;
  /** How often it must have run; null where that is not known. */
  readonly runs: number | null;
  /** Where it tells of itself. */
  readonly callback?: string;
};

/** What was seen while a planned job was driven. The rest is in the server's report. */
export type Observed = {
  readonly plan: PlannedJob;
  readonly jobs: readonly ObservedJob[];
  /** What the server answered where it accepted nothing. */
  readonly refusal: { readonly status: number; readonly code: string | null } | null;
  /** Jobs with which it came too late to show what the kind is for. */
  readonly missed: number;
  /** What was wrong already. */
  readonly problems: readonly string[];
  readonly notes: readonly string[];
};

type Sighting = Pick<Observed, 'jobs'> & Partial<Observed>;

export const observed = (plan: PlannedJob, sighting: Sighting): Observed => ({
  ...{ plan, refusal: null, missed: 0, problems: [], notes: [] },
  ...sighting,
});

/** An answer that is none of those that were hoped for. */
export const told = ({ status, body }: Answer<Problem>): string =>
  `${status}${body.code === undefined ? '' : ` ${body.code}`}`;

export type Submission = {
  key?: string;
  callback?: string;
  turn?: Turn;
  dueAtMs?: number;
  /** It must not make another job. */
  isRepeat?: boolean;
};

/** Submits a planned job; the same again with another key where one is given. */
export async function submit(world: World, plan: PlannedJob, submission: Submission = {}): Promise<Answer<Accepted>> {
  const { key = plan.key, callback, turn, isRepeat = false } = submission;
  const startedMs = performance.now();
  const { dueAtMs = Date.now() + (plan.executionInMs ?? 0) } = submission;
  const answer = await world.api.submit(keyOf(world, plan), {
    ...{ type: plan.type, work_kind: plan.kind, idempotency_key: key },
    ...(plan.executionInMs === null ? {} : { execution_at: new Date(dueAtMs).toISOString() }),
    ...(callback === undefined ? {} : { callback }),
  });
  const latencyMs = performance.now() - (turn?.intendedMs ?? startedMs);
  if (answer.status === 202) world.stats.accepted(latencyMs, isRepeat ? 0 : 1);
  turn?.onAccepted();
  return answer;
}

export const keyOf = ({ clients }: Pick<World, 'clients'>, { client }: PlannedJob): string =>
  (clients[client] as Credentials).apiKey;

/** Waits until the job has ended; null when it did not. */
export async function ended(world: World, plan: PlannedJob, jobId: string): Promise<JobView | null> {
  const notBeforeMs = performance.now() + (plan.executionInMs ?? 0);
  const job = await world.watch.final({ apiKey: keyOf(world, plan), jobId, notBeforeMs });
  if (job !== null) world.stats.finished(job.state);
  return job;
}
