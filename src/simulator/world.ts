import type { ExecutionState } from '../core/execution/states.ts';
import type { Answer, Credentials, ExecutionApi } from './api.ts';
import type { PlannedJob } from './plan.ts';
import type { Stats } from './stats.ts';
import type { JobWatch } from './watch-jobs.ts';
import type { Receiver } from './webhook-receiver.ts';
import type { Accepted, JobView, Problem } from './wire.ts';

/** The planned time of a submission, and the callback for its acceptance. */
export type Turn = { readonly intendedMs: number; onAccepted(): void };

export type World = {
  readonly api: ExecutionApi;
  readonly clients: readonly Credentials[];
  readonly receiver: Receiver;
  readonly watch: JobWatch;
  readonly stats: Stats;
  readonly timeScale: number;
  readonly signal: AbortSignal;
};

/** An accepted job and its expected end. */
export type ObservedJob = {
  readonly jobId: string;
  /** Null: the state in the list of work kinds. */
  readonly expected: ExecutionState | null;
  /** How often it must have run; null if that is not known. */
  readonly runs: number | null;
  readonly callback?: string;
};

/** The observations of a driver. The report of the server has the rest. */
export type Observed = {
  readonly plan: PlannedJob;
  readonly jobs: readonly ObservedJob[];
  /** The error response of a refused submission. */
  readonly refusal: { readonly status: number; readonly code: string | null } | null;
  /** How many jobs were canceled too late for their kind. */
  readonly missed: number;
  readonly problems: readonly string[];
  readonly notes: readonly string[];
};

type Sighting = Pick<Observed, 'jobs'> & Partial<Observed>;

export const observed = (plan: PlannedJob, sighting: Sighting): Observed => ({
  plan,
  refusal: null,
  missed: 0,
  problems: [],
  notes: [],
  ...sighting,
});

/** The status and problem code of an unexpected response. */
export const describe = ({ status, body }: Answer<Problem>): string => `${status}${body.code === undefined ? '' : ` ${body.code}`}`;

export type Submission = {
  key?: string;
  callback?: string;
  turn?: Turn;
  dueAtMs?: number;
  /** The submission repeats an earlier one and must not create a job. */
  isRepeat?: boolean;
};

export async function submit(world: World, plan: PlannedJob, submission: Submission = {}): Promise<Answer<Accepted>> {
  const { key = plan.key, callback, turn, isRepeat = false } = submission;
  const startedMs = performance.now();
  const { dueAtMs = Date.now() + (plan.executionInMs ?? 0) } = submission;
  const answer = await world.api.submit(keyOf(world, plan), {
    type: plan.type,
    work_kind: plan.kind,
    idempotency_key: key,
    ...(plan.executionInMs === null ? {} : { execution_at: new Date(dueAtMs).toISOString() }),
    ...(callback === undefined ? {} : { callback }),
  });
  if (isPast(answer, dueAtMs)) return submission.dueAtMs === undefined ? submit(world, plan, submission) : answer;
  const latencyMs = performance.now() - (turn?.intendedMs ?? startedMs);
  if (answer.status === 202) world.stats.accepted(latencyMs, isRepeat ? 0 : 1);
  turn?.onAccepted();
  return answer;
}

/** On an overloaded machine a request may arrive after its due time. It has to be sent again with a new one. */
export const isPast = ({ status, body }: Answer<Accepted>, dueAtMs: number): boolean =>
  status === 400 && body.errors?.some(({ field }) => field === 'execution_at') === true && Date.now() > dueAtMs;

export const keyOf = ({ clients }: Pick<World, 'clients'>, { client }: PlannedJob): string => (clients[client] as Credentials).apiKey;

/** Waits until the job has ended; null if it did not end in time. */
export async function ended(world: World, plan: PlannedJob, jobId: string): Promise<JobView | null> {
  const notBeforeMs = performance.now() + (plan.executionInMs ?? 0);
  const job = await world.watch.final({ apiKey: keyOf(world, plan), jobId, notBeforeMs });
  if (job !== null) world.stats.finished(job.state);
  return job;
}
