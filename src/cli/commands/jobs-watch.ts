import { setTimeout as pause } from 'node:timers/promises';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { type JobFilter, searchJobs } from '../../services/jobs/search-jobs.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { checkTarget, FILTER_OPTIONS, readFilter } from '../job-filter.ts';
import { type FollowedJob, JobFollower, type JobNews } from '../job-follower.ts';
import { readJobId } from '../option-values.ts';
import { checkOrgOptions, chosenOrgs, ORG_OPTIONS, ownersOf } from '../org-choice.ts';
import type { Output } from '../output.ts';
import { listenForStop, orLeave } from '../stop-signals.ts';

const OPTIONS = { ...ORG_OPTIONS, ...FILTER_OPTIONS } as const;

const MOST = 1_000;
const LOOK_EVERY_MS = 500;

export const jobsWatch = defineCommand({
  name: 'jobs watch',
  summary: 'follow jobs until they have ended',
  takes: '[ID...]',
  maxArgs: MOST,
  options: OPTIONS,
  details: [
    'Prints each change of state and each progress. A filter selects the jobs that match when the command starts, at most 1000, and they',
    'are followed whatever their states become. Exits with 1 unless all jobs completed, and with 130 after Ctrl-C, which does not affect',
    'the jobs.',
  ].join('\n'),
  examples: ['millrace jobs watch ID', 'millrace jobs watch --all-orgs --state running --type report.build --json'],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  checkOrgOptions(values);
  const ids = args.map(readJobId);
  const filter = readFilter(values);
  checkTarget(ids, filter, 'jobs watch');
  const stop = listenForStop(() => out.event({ event: 'forced' }, 'Stopped immediately.'));
  try {
    const work = withEngine(invocation, async (engine) => {
      const jobs = ids.length > 0 ? await ownersOf(engine, values, ids) : await matching(engine, values, filter, out);
      return follow(new JobFollower(engine, jobs), stop.asked, out);
    });
    return await orLeave(work, { asked: stop.asked, code: EXIT.interrupted });
  } finally {
    stop.release();
  }
}

async function matching(
  engine: Engine,
  values: Invocation<typeof OPTIONS>['values'],
  filter: JobFilter,
  out: Output,
): Promise<FollowedJob[]> {
  const jobs: FollowedJob[] = [];
  let isMore = false;
  for (const org of await chosenOrgs(engine, values)) {
    for (let cursor: string | null = null; jobs.length < MOST; ) {
      const page = { limit: MOST - jobs.length, total: false, cursor };
      const found = await searchJobs(engine, { ...wholeOrg(org.id), filter, page });
      jobs.push(...found.jobs.map(({ id }) => ({ id, org })));
      cursor = found.nextCursor;
      isMore ||= jobs.length >= MOST && cursor !== null;
      if (cursor === null) break;
    }
  }
  if (isMore) out.note(`More than ${MOST} jobs match. Following ${MOST} of them; narrow the filter to follow others.`);
  return jobs;
}

async function follow(follower: JobFollower, stopped: Promise<unknown>, out: Output): Promise<number> {
  const stopping = new AbortController();
  void stopped.then(() => stopping.abort());
  for (;;) {
    for (const news of await Promise.race([follower.look(), stopped.then(() => [])])) report(news, out);
    if (follower.left === 0) return summarize(follower, out);
    await pause(LOOK_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
    if (stopping.signal.aborted) {
      out.event({ event: 'stopped', left: follower.left }, `Stopped watching. ${follower.left} of the jobs had not ended.`);
      return EXIT.interrupted;
    }
  }
}

function report(news: JobNews, out: Output): void {
  const { org } = news;
  if (news.kind === 'gone') {
    out.event({ event: 'gone', jobId: news.jobId, org: org.slug }, `Job ${news.jobId} of the org ${org.slug} no longer exists.`);
    return;
  }
  const { job } = news;
  const facts = { jobId: job.id, org: org.slug, type: job.type };
  const name = `${org.slug}  ${job.type}  ${job.id}`;
  if (news.kind === 'progress') {
    const { percent, message, updatedAt: at } = news.progress;
    const text = `${at.toISOString()}  ${name}  ${percent} %${message === null ? '' : ` ${message}`}`;
    out.event({ event: 'progress', ...facts, at, percent, message }, text);
    return;
  }
  const { at, from, to, reason, attempt } = news.transition;
  const { failure } = news;
  const why = failure === null ? '' : `  ${failure.code}: ${failure.message}`;
  out.event({ event: 'state', ...facts, at, from, to, reason, attempt, failure }, `${at.toISOString()}  ${name}  ${to}  ${reason}${why}`);
}

function summarize({ ended }: JobFollower, out: Output): number {
  const counts = [...Map.groupBy(ended.values(), (state) => state)].map(([state, all]) => [state, all.length] as const);
  const text = counts.length === 0 ? 'No job matches.' : `All have ended: ${counts.map(([state, jobs]) => `${jobs} ${state}`).join(', ')}.`;
  out.event({ event: 'ended', jobs: ended.size, states: Object.fromEntries(counts) }, text);
  return [...ended.values()].every((state) => state === 'completed') ? EXIT.ok : EXIT.failed;
}
