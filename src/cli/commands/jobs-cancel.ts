import type { BatchCancellationResult, CancellationResult } from '../../services/jobs/cancel-job.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { FILTER_OPTIONS, isEmptyFilter, readFilter } from '../job-filter.ts';
import { readJobId } from '../option-values.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const OPTIONS = {
  ...FILTER_OPTIONS,
  force: { type: 'boolean', help: 'abort running handlers immediately, not at their next checkpoint' },
  reason: { type: 'string', value: 'TEXT', help: 'the reason, for the history' },
  'dry-run': { type: 'boolean', help: 'count the jobs that would be cancelled, and change nothing' },
} as const;

export const jobsCancel = defineCommand({
  name: 'jobs cancel',
  summary: 'cancel jobs by id or by filter',
  takes: '[ID...]',
  maxArgs: 1_000,
  options: OPTIONS,
  details: 'A waiting job is cancelled immediately. A running job is asked to stop.',
  examples: ['millrace jobs cancel ID --reason "sent by mistake"', 'millrace jobs cancel --state scheduled --type email.send --dry-run'],
  run,
});

type Call = Invocation<typeof OPTIONS>;

async function run(invocation: Call): Promise<number> {
  const { values, args } = invocation;
  const ids = args.map(readJobId);
  const filter = readFilter(values);
  if (ids.length > 0 && !isEmptyFilter(filter))
    throw new UsageError('Name jobs by id, or by --state, --type and --tag, but not by both.', 'jobs cancel');
  if (ids.length === 0 && isEmptyFilter(filter))
    throw new UsageError('No job is named. Give ids, or --state, --type or --tag.', 'jobs cancel');
  const dryRun = values['dry-run'] ?? false;
  if (ids.length > 0 && !dryRun) return cancelEach(invocation, ids);
  return cancelAll(invocation, ids.length > 0 ? { ids } : { filter });
}

async function cancelEach(invocation: Call, ids: readonly string[]): Promise<number> {
  const { reason, force } = invocation.values;
  const results = await withMillrace(invocation, async (millrace) => {
    const gathered: CancellationResult[] = [];
    for (const id of ids) gathered.push(await millrace.cancel(id, { reason, force }));
    return gathered;
  });
  const rows = results.map(({ jobId, status, previousState, message }) => [jobId, status, previousState ?? '', message]);
  invocation.out.answer({ results }, () => textTable(['id', 'status', 'was', ''], rows));
  return results.some(({ status }) => status === 'NOT_FOUND') ? EXIT.failed : EXIT.ok;
}

async function cancelAll(
  invocation: Call,
  target: { ids: readonly string[] } | { filter: ReturnType<typeof readFilter> },
): Promise<number> {
  const { reason, force, 'dry-run': dryRun } = invocation.values;
  const total = await withMillrace(invocation, (millrace) => millrace.cancelMany(target, { reason, force, dryRun }));
  invocation.out.answer(total, () => [sentenceOf(total), ...total.errors.map(({ jobId, message }) => `${jobId}: ${message}`)]);
  return total.failed > 0 ? EXIT.failed : EXIT.ok;
}

function sentenceOf({ requested, cancelled, skipped, failed, dryRun }: BatchCancellationResult): string {
  const verb = dryRun ? 'would be cancelled or asked to stop' : 'cancelled or asked to stop';
  return `${requested} found: ${cancelled} ${verb}, ${skipped} had already ended, ${failed} not found.`;
}
