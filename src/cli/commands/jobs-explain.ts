import { AppError } from '../../core/errors.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { readJobId } from '../option-values.ts';

export const jobsExplain = defineCommand({
  name: 'jobs explain',
  summary: 'say why a job is not running',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: {},
  examples: ['millrace jobs explain 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d'],
  run,
});

async function run(invocation: Invocation): Promise<number> {
  const id = readJobId(invocation.args[0]);
  const told = await withMillrace(invocation, (millrace) => millrace.explain(id));
  if (told === null) throw new AppError('NOT_FOUND', { message: `There is no job ${id}` });
  const others = told.obstacles.map(({ message }) => message).filter((message) => message !== told.summary);
  invocation.out.answer(told, () => [`Job ${id} is ${told.state}. ${told.summary}`, ...others]);
  return EXIT.ok;
}
