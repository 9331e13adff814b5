import { AppError } from '../../core/errors.ts';
import { withAttempts } from '../attempts.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { jobLines } from '../job-text.ts';
import { readJobId } from '../option-values.ts';

const OPTIONS = {
  history: { type: 'boolean', help: 'every change of state, oldest first' },
  attempts: { type: 'boolean', help: 'every attempt: when, on which worker, how it ended' },
} as const;

export const jobsGet = defineCommand({
  name: 'jobs get',
  summary: 'show one job',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: OPTIONS,
  examples: [
    'millrace jobs get 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d',
    'millrace jobs get ID --history --attempts --json',
  ],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const id = readJobId(args[0]);
  const job = await withMillrace(invocation, async (millrace) => {
    const found = await millrace.get(id, { includeHistory: values.history });
    return found === null || !values.attempts ? found : withAttempts(found, millrace.databaseUrl);
  });
  if (job === null) throw new AppError('NOT_FOUND', { message: `There is no job ${id}` });
  out.answer(job, () => jobLines(job));
  return EXIT.ok;
}
