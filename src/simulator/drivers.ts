import { type Drive, KINDS, type WorkKind } from '../core/execution/kinds.ts';
import type { Answer } from './api.ts';
import { judgeView } from './check.ts';
import { SLOW_MS } from './deliveries.ts';
import { runUntilCanceled } from './drive-cancel.ts';
import type { PlannedJob } from './plan.ts';
import { isFinal } from './watch-jobs.ts';
import type { ReceiverMode } from './webhook-receiver.ts';
import type { Accepted } from './wire.ts';
import {
  ended,
  keyOf,
  type Observed,
  type ObservedJob,
  observed,
  submit,
  type Turn,
  told,
  type World,
} from './world.ts';

/** Does to one planned job what its kind needs, and says what came of it. */
export type Driver = (world: World, plan: PlannedJob, turn: Turn) => Promise<Observed>;

/** More than any server allows. */
const MAX_RETRIES = 100;

/** Every way of driving a job. */
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

/** A server that calls no address of this machine still has to do the work. */
async function runWithCallback(world: World, plan: PlannedJob, turn: Turn): Promise<Observed> {
  const callback = world.receiver.url(MODES[plan.kind] ?? 'ok', `${plan.client}-${plan.key}`);
  const first = await submit(world, plan, { turn, callback });
  const isGuarded = first.status === 400 && first.body.errors?.some(({ field }) => field === 'callback') === true;
  const answer = isGuarded ? await submit(world, plan) : first;
  if (answer.status !== 202) return refused(plan, answer);
  const job = await ended(world, plan, answer.body.job_id);
  const notes = isGuarded ? ['callbacks: the server refuses to call this machine; driven without'] : [];
  const submitted: ObservedJob = isGuarded ? once(answer) : { ...once(answer), callback };
  return observed(plan, { jobs: [submitted], problems: judgeView(plan, job), notes });
}

type Twice = { world: World; plan: PlannedJob; turn: Turn; secondKey: string };

/** The second submission is the first again, due time included, but for its key. */
async function runTwice({ world, plan, turn, secondKey }: Twice): Promise<Observed> {
  const dueAtMs = Date.now() + (plan.executionInMs ?? 0);
  const first = await submit(world, plan, { turn, dueAtMs });
  if (first.status !== 202) return refused(plan, first);
  const mustBeSame = secondKey === plan.key;
  const second = await submit(world, plan, { key: secondKey, dueAtMs, isRepeat: mustBeSame });
  if (second.status !== 202) return refused(plan, second);
  const isSame = first.body.job_id === second.body.job_id;
  const jobs = isSame ? [once(first)] : [once(first), once(second)];
  const views = await Promise.all(jobs.map(({ jobId }) => ended(world, plan, jobId)));
  const problems = views.flatMap((view) => judgeView(plan, view));
  if (isSame && !mustBeSame) problems.push('two keys gave one job');
  if (!isSame && mustBeSame) problems.push('one key gave two jobs');
  return observed(plan, { jobs, problems });
}

/** Retries as long as the job fails and the server grants it. */
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
        problems.push(`retry answered ${told(retried)}`);
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
