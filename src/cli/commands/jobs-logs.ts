import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { timelineLines, timelineOf } from '../job-timeline.ts';
import { readJobId } from '../option-values.ts';
import { checkOrgOptions, ORG_OPTIONS } from '../org-choice.ts';
import { readWholeJob } from './jobs-get.ts';

export const jobsLogs = defineCommand({
  name: 'jobs logs',
  summary: 'show what happened to a job, in the order of time',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: ORG_OPTIONS,
  details:
    'Shows each change of state, who caused it, the worker of each attempt, its failure with the stack trace, and the newest progress.',
  examples: ['millrace jobs logs 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d', 'millrace jobs logs ID --all-orgs --json'],
  async run(invocation: Invocation<typeof ORG_OPTIONS>) {
    const { values, args, out } = invocation;
    checkOrgOptions(values);
    const id = readJobId(args[0]);
    const job = await withEngine(invocation, (engine) => readWholeJob(engine, { id, values, history: true, attempts: true }));
    const entries = timelineOf(job);
    const { orgId, type, state } = job;
    out.answer({ jobId: job.id, orgId, type, state, entries }, () => [
      `Job ${job.id} of type ${type} is ${state}.`,
      ...entries.flatMap(timelineLines),
    ]);
    return EXIT.ok;
  },
});
