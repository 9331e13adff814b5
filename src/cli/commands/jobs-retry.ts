import { AppError } from '../../core/errors.ts';
import { wholeOrg } from '../../core/owner.ts';
import { PRIORITIES } from '../../core/priority.ts';
import { type RetryParams, type RetryResult, retryJob } from '../../services/jobs/retry-job.ts';
import { type BatchRetryResult, RETRIABLE_STATES, retryMany } from '../../services/jobs/retry-many.ts';
import { runBulk } from '../bulk.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { CONFIRM_OPTIONS } from '../confirm.ts';
import { withEngine } from '../connection.ts';
import { checkTarget, FILTER_OPTIONS, readFilter } from '../job-filter.ts';
import { readDuration, readJobId, readWord } from '../option-values.ts';
import { checkOrgOptions, ORG_OPTIONS, ownersOf } from '../org-choice.ts';
import type { Output } from '../output.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const OPTIONS = {
  ...ORG_OPTIONS,
  ...FILTER_OPTIONS,
  reset: { type: 'boolean', help: 'start to count attempts from one again' },
  delay: { type: 'string', value: 'DURATION', help: 'the delay before the job runs' },
  priority: { type: 'string', value: 'PRIORITY', help: `${PRIORITIES.join(', ')}; default: as before` },
  ...CONFIRM_OPTIONS,
} as const;

export const jobsRetry = defineCommand({
  name: 'jobs retry',
  summary: 'give failed or dead-lettered jobs another attempt, by id or by filter',
  takes: '[ID...]',
  maxArgs: 1_000,
  options: OPTIONS,
  details: [
    'A filter finds failed and dead-lettered jobs.',
    'Before it retries by filter, the command says how many jobs match, and needs --yes or the number typed in a terminal.',
  ].join('\n'),
  examples: [
    'millrace jobs retry ID',
    'millrace jobs retry ID --reset --delay 5m --priority HIGH',
    'millrace jobs retry --state dead_letter --type email.send --dry-run',
    'millrace jobs retry --org acme --type email.send --reset --yes',
  ],
  run,
});

type Call = Invocation<typeof OPTIONS>;
type How = Pick<RetryParams, 'resetAttempts' | 'delay' | 'priority' | 'actor'>;

async function run(invocation: Call): Promise<number> {
  const { values, args, out } = invocation;
  checkOrgOptions(values);
  const ids = args.map(readJobId);
  const filter = readFilter(values);
  checkTarget(ids, filter, 'jobs retry');
  const how: How = {
    resetAttempts: values.reset ?? false,
    delay: readDuration(values.delay, 'delay'),
    priority: readWord(values.priority, 'priority', PRIORITIES),
    actor: null,
  };
  if (ids.length > 0) return retryEach(invocation, ids, how);
  const wrong = filter.states?.find((state) => !RETRIABLE_STATES.some((each) => each === state));
  if (wrong !== undefined) throw new UsageError(`Jobs that are ${wrong} cannot be retried: use --state failed,dead_letter.`, 'jobs retry');
  const total = await runBulk(invocation, {
    command: 'jobs retry',
    verb: 'retry',
    act: (engine, org, { dryRun, onProgress }) =>
      retryMany(engine, { ...wholeOrg(org.id), ...how, filter, dryRun, onProgress: ({ retried }) => onProgress(retried) }),
    affected: ({ retried }) => retried,
    none: NONE,
    add: sum,
  });
  out.answer(total, () => [sentenceOf(total), ...total.errors.map(({ jobId, message }) => `${jobId}: ${message}`)]);
  return EXIT.ok;
}

async function retryEach(invocation: Call, ids: readonly string[], how: How): Promise<number> {
  const { values, out } = invocation;
  if (values['dry-run'] === true) throw new UsageError('--dry-run counts the jobs of a filter. "jobs get ID" shows a job.', 'jobs retry');
  const results = await withEngine(invocation, async (engine) => {
    const gathered: RetryResult[] = [];
    for (const { id, org } of await ownersOf(engine, values, ids))
      gathered.push(await retryJob(engine, { ...wholeOrg(org.id), ...how, id }));
    return gathered;
  });
  const [only] = results;
  if (only !== undefined && results.length === 1) return showOne(only, out);
  const rows = results.map(({ jobId, status, newState, scheduledFor }) => [
    jobId,
    status,
    newState ?? '',
    scheduledFor?.toISOString() ?? '',
  ]);
  out.answer({ results }, () => textTable(['id', 'status', 'state', 'due'], rows));
  return results.some(({ status }) => status !== 'QUEUED') ? EXIT.failed : EXIT.ok;
}

function showOne(result: RetryResult, out: Output): number {
  const { jobId, status, newState, scheduledFor } = result;
  if (status === 'NOT_FOUND') throw new AppError('NOT_FOUND', { message: `There is no job ${jobId}` });
  if (status === 'NOT_RETRIABLE') {
    const message = `Job ${jobId} is ${newState}. Only failed and dead_letter jobs can be retried.`;
    throw new AppError('ILLEGAL_TRANSITION', { message });
  }
  out.answer(result, () => [`Job ${jobId} is ${newState}${scheduledFor === null ? '' : `, due ${scheduledFor.toISOString()}`}.`]);
  return EXIT.ok;
}

const NONE: BatchRetryResult = { requested: 0, retried: 0, skipped: 0, errors: [], dryRun: false };

const sum = (left: BatchRetryResult, right: BatchRetryResult): BatchRetryResult => ({
  requested: left.requested + right.requested,
  retried: left.retried + right.retried,
  skipped: left.skipped + right.skipped,
  errors: [...left.errors, ...right.errors],
  dryRun: left.dryRun || right.dryRun,
});

const sentenceOf = ({ requested, retried, skipped, dryRun }: BatchRetryResult): string =>
  `${requested} found: ${retried} ${dryRun ? 'would be retried' : 'retried'}, ${skipped} skipped.`;
