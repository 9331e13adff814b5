import { AppError } from '../../core/errors.ts';
import { PRIORITIES } from '../../core/priority.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { readDuration, readJobId, readWord } from '../option-values.ts';
import { noSuchJob } from './jobs-get.ts';

const OPTIONS = {
  reset: { type: 'boolean', help: 'start to count attempts from one again' },
  delay: { type: 'string', value: 'DURATION', help: 'the delay before the job runs' },
  priority: { type: 'string', value: 'PRIORITY', help: `${PRIORITIES.join(', ')}; default: as before` },
} as const;

export const jobsRetry = defineCommand({
  name: 'jobs retry',
  summary: 'give a failed or dead-lettered job another attempt',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: OPTIONS,
  examples: ['millrace jobs retry ID', 'millrace jobs retry ID --reset --delay 5m --priority HIGH'],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const id = readJobId(args[0]);
  const options = {
    resetAttempts: values.reset,
    delay: readDuration(values.delay, 'delay'),
    priority: readWord(values.priority, 'priority', PRIORITIES),
  };
  const result = await withMillrace(invocation, (millrace) => millrace.retry(id, options));
  if (result.status === 'NOT_FOUND') throw noSuchJob(id);
  if (result.status === 'NOT_RETRIABLE') {
    const message = `Job ${id} is ${result.newState}. Only failed and dead_letter jobs can be retried.`;
    throw new AppError('ILLEGAL_TRANSITION', { message });
  }
  out.answer(result, () => [
    `Job ${id} is ${result.newState}${result.scheduledFor === null ? '' : `, due ${result.scheduledFor.toISOString()}`}.`,
  ]);
  return EXIT.ok;
}
