import { AppError } from '../../core/errors.ts';
import { wholeOrg } from '../../core/owner.ts';
import { openDatabase } from '../../ledger/driver/database.ts';
import { jobAttempts } from '../../ledger/reads/job-attempts.ts';
import type { JobView } from '../../services/jobs/read-job.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { type JobWithAttempts, jobLines } from '../job-text.ts';
import { readJobId } from '../option-values.ts';

const OPTIONS = {
  history: { type: 'boolean', help: 'show every change of state, oldest first' },
  attempts: { type: 'boolean', help: 'show every attempt: its time, its worker and its result' },
} as const;

export const jobsGet = defineCommand({
  name: 'jobs get',
  summary: 'show one job',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: OPTIONS,
  examples: ['millrace jobs get 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d', 'millrace jobs get ID --history --attempts --json'],
  run: get,
});

async function get(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const id = readJobId(args[0]);
  const job = await withMillrace(invocation, async (millrace) => {
    const found = await millrace.get(id, { includeHistory: values.history });
    return found === null || !values.attempts ? found : withAttempts(found, millrace.databaseUrl);
  });
  if (job === null) throw noSuchJob(id);
  out.answer(job, () => jobLines(job));
  return EXIT.ok;
}

/** The library returns the attempts of failed jobs only; an operator needs those of every job. */
async function withAttempts(job: JobView, databaseUrl: string): Promise<JobWithAttempts> {
  const database = openDatabase({ url: databaseUrl, apiPool: 1 });
  try {
    return { ...job, attempts: await jobAttempts(database.api, wholeOrg(job.orgId), job.id) };
  } finally {
    await database.close();
  }
}

export const jobsExplain = defineCommand({
  name: 'jobs explain',
  summary: 'explain why a job is not running',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  examples: ['millrace jobs explain 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d'],
  async run(invocation: Invocation) {
    const id = readJobId(invocation.args[0]);
    const explained = await withMillrace(invocation, (millrace) => millrace.explain(id));
    if (explained === null) throw noSuchJob(id);
    const { obstacles, summary, state } = explained;
    const others = obstacles.map(({ message }) => message).filter((message) => message !== summary);
    invocation.out.answer(explained, () => [`Job ${id} is ${state}. ${summary}`, ...others]);
    return EXIT.ok;
  },
});

export const noSuchJob = (id: string): AppError => new AppError('NOT_FOUND', { message: `There is no job ${id}` });
