import { KINDS } from '../core/execution/kinds.ts';
import { judgeView } from './check.ts';
import type { PlannedJob } from './plan.ts';
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

/** At a small time scale a run is over in moments, and a busy machine misses many of them. */
const MAX_TRIES = 50;
/** So many at once keep workers busy long enough that some of them wait. */
const LARGEST_BURST = 32;

/**
 * A job that was not canceled in the state that its kind is about counts as missed, and others are tried. A worker that idles
 * takes a job at once: where the job must be canceled before its start, each try submits more at once, and cancels them all.
 */
export async function runUntilCanceled(world: World, plan: PlannedJob, turn: Turn): Promise<Observed> {
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
    if (all.some(({ isHit, problems, refusal }) => isHit || problems.length > 0 || refusal !== null))
      return sightingOf(plan, all);
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
  const problems = canceled.status === 200 ? [] : [`cancel answered ${told(canceled)}`];
  const isHit = isCanceled && (drive === 'cancel_running' || view?.started_at == null);
  // Without a cancel in time these kinds succeed; one that came later than it was meant to cancels all the same.
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
