import type { LogLine } from '../../core/job-log.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { followJob, type JobNews } from '../../services/jobs/follow-job.ts';
import { readLogs } from '../../services/jobs/read-logs.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { newsLine, timelineLines, timelineOf } from '../job-timeline.ts';
import { readJobId } from '../option-values.ts';
import { checkOrgOptions, ORG_OPTIONS, ownersOf } from '../org-choice.ts';
import type { Output } from '../output.ts';
import { listenForStop, orLeave } from '../stop-signals.ts';
import { readWholeJob } from './jobs-get.ts';

const OPTIONS = {
  ...ORG_OPTIONS,
  follow: { type: 'boolean', short: 'f', help: 'go on until the job has ended, and print each line as it comes' },
} as const;

type Values = Invocation<typeof OPTIONS>['values'];

export const jobsLogs = defineCommand({
  name: 'jobs logs',
  summary: 'show what happened to a job, in the order of time',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: OPTIONS,
  details: [
    'Shows each change of state, who caused it, the worker of each attempt, its failure with the stack trace, the newest progress, and the',
    'lines that the handler logged. With --follow, Ctrl-C exits with 130 and does not affect the job.',
  ].join('\n'),
  examples: [
    'millrace jobs logs 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d',
    'millrace jobs logs ID --follow',
    'millrace jobs logs ID --all-orgs --json',
  ],
  isLongRunning: true,
  run: showOrFollow,
});

/** Also for `millrace logs`, which always follows. */
export async function showOrFollow(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  checkOrgOptions(values);
  const id = readJobId(args[0]);
  const stop = listenForStop(() => out.event({ event: 'forced' }, 'Stopped immediately.'));
  try {
    const work = withEngine(invocation, (engine) =>
      values.follow === true ? follow(engine, { id, values, out, stopped: stop.asked }) : show(engine, { id, values, out }),
    );
    return await orLeave(work, { asked: stop.asked, code: EXIT.interrupted });
  } finally {
    stop.release();
  }
}

async function show(engine: Engine, { id, values, out }: { id: string; values: Values; out: Output }): Promise<number> {
  const job = await readWholeJob(engine, { id, values, history: true, attempts: true });
  const entries = timelineOf(job, await allLines(engine, job.orgId, id));
  const { orgId, type, state } = job;
  out.answer({ jobId: job.id, orgId, type, state, entries }, () => [
    `Job ${job.id} of type ${type} is ${state}.`,
    ...entries.flatMap(timelineLines),
  ]);
  return EXIT.ok;
}

async function allLines(engine: Engine, orgId: string, id: string): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for (let cursor: string | null = null; ; ) {
    const page = await readLogs(engine, { ...wholeOrg(orgId), id, cursor, limit: 1_000 });
    lines.push(...(page?.lines ?? []));
    cursor = page?.nextCursor ?? null;
    if (cursor === null) return lines;
  }
}

type Followed = { id: string; values: Values; out: Output; stopped: Promise<unknown> };

async function follow(engine: Engine, { id, values, out, stopped }: Followed): Promise<number> {
  const [owned] = await ownersOf(engine, values, [id]);
  const stopping = new AbortController();
  void stopped.then(() => stopping.abort());
  try {
    for await (const news of followJob(engine, { orgId: owned?.org.id ?? '', id, signal: stopping.signal })) report(id, news, out);
    return EXIT.ok;
  } catch (error) {
    if (!stopping.signal.aborted) throw error;
    return EXIT.interrupted;
  }
}

function report(jobId: string, { kind, ...news }: JobNews, out: Output): void {
  out.event({ event: kind, jobId, ...news }, newsLine({ kind, ...news } as JobNews));
}
