import { wholeOrg } from '../../core/owner.ts';
import { type BatchCancellationResult, type CancellationResult, cancelJob, cancelMany } from '../../services/jobs/cancel-job.ts';
import { runBulk } from '../bulk.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { CONFIRM_OPTIONS } from '../confirm.ts';
import { withEngine } from '../connection.ts';
import { checkTarget, FILTER_OPTIONS, readFilter } from '../job-filter.ts';
import { readJobId } from '../option-values.ts';
import { checkOrgOptions, findOwners, ORG_OPTIONS } from '../org-choice.ts';
import type { Output } from '../output.ts';
import { textTable } from '../text-table.ts';

const OPTIONS = {
  ...ORG_OPTIONS,
  ...FILTER_OPTIONS,
  force: { type: 'boolean', help: 'end running jobs after a grace period even if their handlers do not stop' },
  reason: { type: 'string', value: 'TEXT', help: 'the reason, for the history' },
  ...CONFIRM_OPTIONS,
} as const;

export const jobsCancel = defineCommand({
  name: 'jobs cancel',
  summary: 'cancel jobs by id or by filter',
  takes: '[ID...]',
  maxArgs: 1_000,
  options: OPTIONS,
  details: [
    'A waiting job is cancelled immediately. A running job is asked to stop.',
    'Before it cancels by filter, the command says how many jobs match, and needs --yes or the number typed in a terminal.',
  ].join('\n'),
  examples: [
    'millrace jobs cancel ID --reason "sent by mistake"',
    'millrace jobs cancel --state scheduled --type email.send --dry-run',
    'millrace jobs cancel --org acme --state scheduled --type email.send --yes',
  ],
  run,
});

type Call = Invocation<typeof OPTIONS>;

async function run(invocation: Call): Promise<number> {
  const { values, args, out } = invocation;
  checkOrgOptions(values);
  const ids = args.map(readJobId);
  const filter = readFilter(values);
  checkTarget(ids, filter, 'jobs cancel');
  if (ids.length > 0) return cancelEach(invocation, ids);
  const how = { reason: values.reason ?? null, force: values.force ?? false, actor: null };
  const total = await runBulk(invocation, {
    command: 'jobs cancel',
    verb: 'cancel',
    act: (engine, org, { dryRun, onProgress }) =>
      cancelMany(engine, { ...wholeOrg(org.id), ...how, target: { filter }, dryRun, onProgress: ({ cancelled }) => onProgress(cancelled) }),
    affected: ({ cancelled }) => cancelled,
    none: NONE,
    add: sum,
  });
  return show(total, out);
}

async function cancelEach(invocation: Call, ids: readonly string[]): Promise<number> {
  const { values, out } = invocation;
  const how = { reason: values.reason ?? null, force: values.force ?? false, actor: null };
  if (values['dry-run'] === true) return previewEach(invocation, ids, how);
  const results = await withEngine(invocation, async (engine) => {
    const gathered: CancellationResult[] = [];
    for (const { id, org, message } of await findOwners(engine, values, ids))
      gathered.push(
        org === null
          ? { jobId: id, status: 'NOT_FOUND', previousState: null, message }
          : await cancelJob(engine, { ...wholeOrg(org.id), ...how, id }),
      );
    return gathered;
  });
  const rows = results.map(({ jobId, status, previousState, message }) => [jobId, status, previousState ?? '', message]);
  out.answer({ results }, () => textTable(['id', 'status', 'was', ''], rows));
  return results.some(({ status }) => status === 'NOT_FOUND') ? EXIT.failed : EXIT.ok;
}

type HowToCancel = { reason: string | null; force: boolean; actor: null };

async function previewEach(invocation: Call, ids: readonly string[], how: HowToCancel): Promise<number> {
  const { values, out } = invocation;
  const total = await withEngine(invocation, async (engine) => {
    const owned = await findOwners(engine, values, ids);
    const missing = owned.filter(({ org }) => org === null);
    const errors = missing.map(({ id, message }) => ({ jobId: id, code: 'NOT_FOUND', message }));
    let found: BatchCancellationResult = { ...NONE, requested: missing.length, failed: missing.length, errors, dryRun: true };
    for (const [orgId, jobs] of Map.groupBy(owned, ({ org }) => org?.id ?? null))
      if (orgId !== null)
        found = sum(
          found,
          await cancelMany(engine, { ...wholeOrg(orgId), ...how, target: { ids: jobs.map(({ id }) => id) }, dryRun: true }),
        );
    return found;
  });
  return show(total, out);
}

const NONE: BatchCancellationResult = { requested: 0, cancelled: 0, skipped: 0, failed: 0, errors: [], dryRun: false };

const sum = (left: BatchCancellationResult, right: BatchCancellationResult): BatchCancellationResult => ({
  requested: left.requested + right.requested,
  cancelled: left.cancelled + right.cancelled,
  skipped: left.skipped + right.skipped,
  failed: left.failed + right.failed,
  errors: [...left.errors, ...right.errors],
  dryRun: left.dryRun || right.dryRun,
});

function show(total: BatchCancellationResult, out: Output): number {
  out.answer(total, () => [sentenceOf(total), ...total.errors.map(({ jobId, message }) => `${jobId}: ${message}`)]);
  return total.failed > 0 ? EXIT.failed : EXIT.ok;
}

function sentenceOf({ requested, cancelled, skipped, failed, dryRun }: BatchCancellationResult): string {
  const verb = dryRun ? 'would be cancelled or asked to stop' : 'cancelled or asked to stop';
  return `${requested} found: ${cancelled} ${verb}, ${skipped} had already ended, ${failed} not found.`;
}
