import { type Drive, KINDS, type WorkKind } from '../core/execution/kinds.ts';
import type { Answer } from './api.ts';
import { judgeView, SLOW_MS } from './check.ts';
import type { PlannedJob } from './plan.ts';
import { isFinal } from './watch-jobs.ts';
import type { ReceiverMode } from './webhook-receiver.ts';
import type { Accepted } from './wire.ts';
import { describe, ended, isPast, keyOf, type Observed, type ObservedJob, observed, submit, type Turn, type World } from './world.ts';

/** Runs one planned job with the client actions that its kind needs, and returns the observations. */
export type Driver = (world: World, plan: PlannedJob, turn: Turn) => Promise<Observed>;

/** More retries than any server allows. */
const MAX_RETRIES = 100;

export const DRIVERS: Readonly<Record<Drive, Driver>> = {
  plain: runPlain,
  deferred: runPlain,
  deferred_far: runPlain,
  deferred_restart: runPlain,
  webhook: runWithCallback,
  rejected: runPlain,
  same_key: (world, plan, turn) => runTwice({ world, plan, turn, secondKey: plan.key }),
  other_key: (world, plan, turn) => runTwice({ world, plan, turn, secondKey: `${plan.key}-other` }),
  cancel_queued: runUntilCanceled,
  cancel_running: runUntilCanceled,
  retry_once: runWithRetries,
  retry_to_limit: runWithRetries,
};

async function runPlain(world: World, plan: PlannedJob, turn: Turn): Promise<Observed> {
  const answer = await submit(world, plan, { turn });
  if (answer.status !== 202) return refused(plan, answer);
  const job = await ended(world, plan, answer.body.job_id);
  return observed(plan, { jobs: [once(answer)], problems: judgeView(plan, job) });
}

const MODES: Partial<Record<WorkKind, ReceiverMode>> = {
  WEBHOOK_SUCCESS: 'ok',
  WEBHOOK_TIMEOUT: 'timeout?times=1',
  WEBHOOK_5XX: '5xx-then-ok?times=1',
  WEBHOOK_RETRIES_EXHAUSTED: '5xx',
  WEBHOOK_SLOW_RECEIVER: `slow?ms=${SLOW_MS}`,
};

/** A server may refuse to call this machine. Then the job is submitted without a callback. */
async function runWithCallback(world: World, plan: PlannedJob, turn: Turn): Promise<Observed> {
  const callback = world.receiver.url(MODES[plan.kind] ?? 'ok', `${plan.client}-${plan.key}`);
  const first = await submit(world, plan, { turn, callback });
  const isGuarded = first.status === 400 && first.body.errors?.some(({ field }) => field === 'callback') === true;
  const answer = isGuarded ? await submit(world, plan) : first;
  if (answer.status !== 202) return refused(plan, answer);
  const job = await ended(world, plan, answer.body.job_id);
  const notes = isGuarded ? ['callbacks: the server refuses to call this machine; jobs ran without callbacks'] : [];
  const submitted: ObservedJob = isGuarded ? once(answer) : { ...once(answer), callback };
  return observed(plan, { jobs: [submitted], problems: judgeView(plan, job), notes });
}

type Twice = { world: World; plan: PlannedJob; turn: Turn; secondKey: string };

/** The second submission equals the first, including its due time unless that has passed. Only the key may differ. */
async function runTwice({ world, plan, turn, secondKey }: Twice): Promise<Observed> {
  const dueAtMs = Date.now() + (plan.executionInMs ?? 0);
  const first = await submit(world, plan, { turn, dueAtMs });
  if (isPast(first, dueAtMs)) return runTwice({ world, plan, turn, secondKey });
  if (first.status !== 202) return refused(plan, first);
  const mustBeSame = secondKey === plan.key;
  const timely = await submit(world, plan, { key: secondKey, dueAtMs, isRepeat: mustBeSame });
  const second = !mustBeSame && isPast(timely, dueAtMs) ? await submit(world, plan, { key: secondKey }) : timely;
  if (second.status !== 202) return refused(plan, second);
  const isSame = first.body.job_id === second.body.job_id;
  const jobs = isSame ? [once(first)] : [once(first), once(second)];
  const views = await Promise.all(jobs.map(({ jobId }) => ended(world, plan, jobId)));
  const problems = views.flatMap((view) => judgeView(plan, view));
  if (isSame && !mustBeSame) problems.push('two keys created one job');
  if (!isSame && mustBeSame) problems.push('one key created two jobs');
  return observed(plan, { jobs, problems });
}

/** Retries while the job fails and the server accepts a retry. */
async function runWithRetries(world: World, plan: PlannedJob, turn: Turn): Promise<Observed> {
  const answer = await submit(world, plan, { turn });
  if (answer.status !== 202) return refused(plan, answer);
  const jobId = answer.body.job_id;
  let job = await ended(world, plan, jobId);
  let retries = 0;
  const problems: string[] = [];
  while (job?.state === 'FAILED' && retries < MAX_RETRIES) {
    const retried = await world.api.retry(keyOf(world, plan), jobId);
    if (retried.status !== 200) {
      if (KINDS[plan.kind].drive !== 'retry_to_limit' || retried.body.code !== 'RFA_JOB_CONFLICT')
        problems.push(`retry returned ${describe(retried)}`);
      break;
    }
    retries++;
    world.stats.reopened('FAILED');
    if (isFinal(retried.body.state)) problems.push(`retry left the job ${retried.body.state}`);
    if (retried.body.attempt !== retries + 1) problems.push(`retry ${retries} gave attempt ${retried.body.attempt}`);
    job = await ended(world, { ...plan, executionInMs: null }, jobId);
  }
  if (retries === 0) problems.push('was not retried');
  return observed(plan, {
    jobs: [{ jobId, expected: null, runs: retries + 1 }],
    problems: [...problems, ...judgeView(plan, job)],
  });
}

const refused = (plan: PlannedJob, { status, body }: Answer<Accepted>): Observed =>
  observed(plan, { jobs: [], refusal: { status, code: body.code ?? null } });

const once = ({ body }: Answer<Accepted>): ObservedJob => ({ jobId: body.job_id, expected: null, runs: 1 });

/** At a small time scale a run takes only moments, so a cancel on a busy machine often comes too late. */
const MAX_TRIES = 50;
/** This many concurrent jobs keep the workers busy, so that some jobs wait. */
const LARGEST_BURST = 32;

/**
 * Submits and cancels jobs until one is canceled in the state that its kind requires. The others count as missed. An idle
 * worker starts a job immediately. To cancel one before its start, each round submits more jobs and cancels them all.
 */
async function runUntilCanceled(world: World, plan: PlannedJob, turn: Turn): Promise<Observed> {
  const isBeforeStart = KINDS[plan.kind].drive === 'cancel_queued';
  const all: Tried[] = [];
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const burst = isBeforeStart ? Math.min(LARGEST_BURST, 2 ** attempt) : 1;
    const tries = Array.from({ length: burst }, (_, index) => {
      const no = all.length + index;
      return tryOne({
        world,
        plan,
        key: no === 0 ? plan.key : `${plan.key}-${no + 1}`,
        turn: no === 0 ? turn : undefined,
      });
    });
    all.push(...(await Promise.all(tries)));
    if (all.some(({ isHit, problems, refusal }) => isHit || problems.length > 0 || refusal !== null)) return sightingOf(plan, all);
  }
  const { problems, ...sighting } = sightingOf(plan, all);
  const late = isBeforeStart ? 'was started before it could be canceled' : 'ended before it could be canceled';
  return { ...sighting, problems: [...problems, `${late}, ${all.length} times`] };
}

type Tried = {
  readonly job: ObservedJob | null;
  readonly isHit: boolean;
  readonly problems: readonly string[];
  readonly refusal: Observed['refusal'];
};

type Try = { world: World; plan: PlannedJob; key: string; turn: Turn | undefined };

async function tryOne({ world, plan, key, turn }: Try): Promise<Tried> {
  const { drive } = KINDS[plan.kind];
  const answer = await submit(world, plan, { key, turn });
  const { job_id: jobId, code = null } = answer.body;
  if (answer.status !== 202) return { job: null, isHit: false, problems: [], refusal: { status: answer.status, code } };
  if (drive === 'cancel_running') await untilRunning(world, plan, jobId);
  const canceled = await world.api.cancel(keyOf(world, plan), jobId);
  const isCanceled = canceled.body.state === 'CANCELED';
  const view = await ended(world, { ...plan, executionInMs: null }, jobId);
  const problems = canceled.status === 200 ? [] : [`cancel returned ${describe(canceled)}`];
  const isHit = isCanceled && (drive === 'cancel_running' || view?.started_at == null);
  // Without a cancel these kinds succeed. A cancel that came too late for its kind still cancels the job.
  const expected = isHit ? null : isCanceled ? 'CANCELED' : 'SUCCEEDED';
  const job: ObservedJob = { jobId, expected, runs: isCanceled ? null : 1 };
  return { job, isHit, problems: [...problems, ...judgeView(plan, view)], refusal: null };
}

async function untilRunning(world: World, plan: PlannedJob, jobId: string): Promise<void> {
  const { durationMs } = KINDS[plan.kind];
  const everyMs = Math.min(250, Math.max(10, (Number(durationMs) * world.timeScale) / 5));
  const notBeforeMs = performance.now() + (plan.executionInMs ?? 0);
  await world.watch.reaches({ apiKey: keyOf(world, plan), jobId, notBeforeMs }, 'RUNNING', everyMs);
}

const sightingOf = (plan: PlannedJob, tries: readonly Tried[]): Observed =>
  observed(plan, {
    jobs: tries.flatMap(({ job }) => job ?? []),
    problems: tries.flatMap(({ problems }) => problems),
    refusal: tries.find(({ refusal }) => refusal !== null)?.refusal ?? null,
    missed: tries.filter(({ isHit }) => !isHit).length,
  });
