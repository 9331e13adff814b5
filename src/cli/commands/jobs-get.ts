import { AppError } from '../../core/errors.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { jobAttempts } from '../../ledger/reads/job-attempts.ts';
import { explainJob } from '../../services/jobs/explain-job.ts';
import { readJobView } from '../../services/jobs/read-job.ts';
import { defineCommand, EXIT, type Invocation, type ValuesOf } from '../command.ts';
import { withEngine } from '../connection.ts';
import { type JobWithAttempts, jobLines } from '../job-text.ts';
import { readJobId } from '../option-values.ts';
import { checkOrgOptions, ORG_OPTIONS, ownersOf } from '../org-choice.ts';

const OPTIONS = {
  ...ORG_OPTIONS,
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
  examples: ['millrace jobs get 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d', 'millrace jobs get ID --all-orgs --history --attempts --json'],
  run: get,
});

async function get(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  checkOrgOptions(values);
  const id = readJobId(args[0]);
  const { history = false, attempts = false } = values;
  const job = await withEngine(invocation, (engine) => readWholeJob(engine, { id, values, history, attempts }));
  out.answer(job, () => jobLines(job));
  return EXIT.ok;
}

type Wanted = { id: string; values: ValuesOf<typeof ORG_OPTIONS>; history: boolean; attempts: boolean };

/** Throws NOT_FOUND if the chosen orgs have no such job. */
export async function readWholeJob(engine: Engine, { id, values, history, attempts }: Wanted): Promise<JobWithAttempts> {
  const owner = wholeOrg(await ownerOf(engine, values, id));
  const job = await readJobView(engine, { ...owner, id, includeResult: true, includeHistory: history });
  if (job === null) throw noSuchJob(id);
  // The services return the attempts of failed jobs only; an operator needs those of every job.
  return attempts ? { ...job, attempts: await jobAttempts(engine.database.reads.of(owner.orgId), owner, job.id) } : job;
}

async function ownerOf(engine: Engine, values: ValuesOf<typeof ORG_OPTIONS>, id: string): Promise<string> {
  const [owned] = await ownersOf(engine, values, [id]);
  return owned?.org.id ?? '';
}

export const jobsExplain = defineCommand({
  name: 'jobs explain',
  summary: 'explain why a job is not running',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: ORG_OPTIONS,
  examples: ['millrace jobs explain 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d', 'millrace jobs explain ID --all-orgs'],
  async run(invocation: Invocation<typeof ORG_OPTIONS>) {
    const { values } = invocation;
    checkOrgOptions(values);
    const id = readJobId(invocation.args[0]);
    const explained = await withEngine(invocation, async (engine) =>
      explainJob(engine, { ...wholeOrg(await ownerOf(engine, values, id)), id }),
    );
    if (explained === null) throw noSuchJob(id);
    const { obstacles, summary, state } = explained;
    const others = obstacles.map(({ message }) => message).filter((message) => message !== summary);
    invocation.out.answer(explained, () => [`Job ${id} is ${state}. ${summary}`, ...others]);
    return EXIT.ok;
  },
});

const noSuchJob = (id: string): AppError => new AppError('NOT_FOUND', { message: `There is no job ${id}` });
