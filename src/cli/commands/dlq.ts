import type { PatchStep } from '../../core/governance/payload-patch.ts';
import { maskPayload } from '../../core/mask-payload.ts';
import { wholeOrg } from '../../core/owner.ts';
import { publicFailure } from '../../core/public-failure.ts';
import { DeadLetterControls } from '../../services/dead-letters/dead-letter-controls.ts';
import { noSuchEntry } from '../../services/dead-letters/dead-letter-request.ts';
import type { DeadLetterView } from '../../services/dead-letters/read-dead-letters.ts';
import { readJobView } from '../../services/jobs/read-job.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { CLI_REQUESTER, ENTRY_OPTIONS, REASON_OPTION, readEntryFilter, readJson, STATUS_OPTION } from '../dead-letter-options.ts';
import { readInteger, readJobId } from '../option-values.ts';
import { chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { textFacts, textTable } from '../text-table.ts';

const LIMIT_OPTION = { limit: { type: 'string', value: 'N', help: 'how many at most, up to 1000; default: 100' } } as const;
const LIST_OPTIONS = { ...ONE_ORG_OPTION, ...ENTRY_OPTIONS, ...STATUS_OPTION, ...LIMIT_OPTION } as const;
const ACT_OPTIONS = { ...ONE_ORG_OPTION, ...REASON_OPTION } as const;
const ONE_JOB = { takes: 'JOB_ID', minArgs: 1, maxArgs: 1 } as const;

type Call = Invocation<typeof ONE_ORG_OPTION>;

function withDeadLetters<T>(invocation: Call, work: (letters: DeadLetterControls) => Promise<T>): Promise<T> {
  return withEngine(invocation, async (engine) => {
    const { id } = await chosenOrg(engine, invocation.values);
    return work(new DeadLetterControls(engine, id, { requester: CLI_REQUESTER }));
  });
}

export const dlqList = defineCommand({
  name: 'dlq list',
  summary: 'list dead-lettered jobs, newest first',
  options: LIST_OPTIONS,
  examples: ['millrace dlq list', 'millrace dlq list --type invoice --code PROVIDER_DOWN', 'millrace dlq list --status all --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const limit = readInteger(invocation.values.limit, 'limit');
    const found = await withDeadLetters(invocation, (letters) => letters.list(readEntryFilter(invocation.values), { limit }));
    const rows = found.entries.map((entry) => [
      entry.jobId,
      entry.status,
      entry.type,
      entry.originQueue,
      entry.failedAt.toISOString(),
      errorText(entry),
    ]);
    invocation.out.answer(found, () =>
      rows.length === 0 ? ['No dead letter matches.'] : textTable(['job', 'status', 'type', 'queue', 'died', 'error'], rows),
    );
    if (found.nextCursor !== null) invocation.out.note('There are more. Raise --limit, or filter.');
    return EXIT.ok;
  },
});

export const dlqGroups = defineCommand({
  name: 'dlq groups',
  summary: 'group dead-lettered jobs by their cause, the largest group first',
  options: LIST_OPTIONS,
  details: 'Messages that differ only in ids, numbers and quoted text have the same cause.',
  examples: ['millrace dlq groups', 'millrace dlq groups --since 2026-01-15T00:00:00Z --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const limit = readInteger(invocation.values.limit, 'limit');
    const found = await withDeadLetters(invocation, (letters) => letters.groups(readEntryFilter(invocation.values), { limit }));
    const rows = found.groups.map((group) => [
      String(group.count),
      group.type,
      group.fingerprint,
      group.lastAt.toISOString(),
      group.sampleJobId,
      errorText(group),
    ]);
    invocation.out.answer(found, () =>
      rows.length === 0 ? ['No dead letter matches.'] : textTable(['count', 'type', 'fingerprint', 'last', 'sample', 'error'], rows),
    );
    return EXIT.ok;
  },
});

export const dlqShow = defineCommand({
  name: 'dlq show',
  summary: 'show a dead-lettered job, its error, its payload with secrets masked, and what to do about it',
  ...ONE_JOB,
  options: ONE_ORG_OPTION,
  examples: ['millrace dlq show JOB_ID', 'millrace dlq show JOB_ID --org acme --json'],
  async run(invocation: Call) {
    const id = readJobId(invocation.args[0]);
    const shown = await withEngine(invocation, async (engine) => {
      const org = await chosenOrg(engine, invocation.values);
      const entry = await new DeadLetterControls(engine, org.id).get(id);
      if (entry === null) throw noSuchEntry(id);
      const job = await readJobView(engine, { ...wholeOrg(org.id), id });
      return { ...entry, payload: maskPayload(job?.payload) };
    });
    invocation.out.answer(shown, () => factsOf(shown));
    return EXIT.ok;
  },
});

export const dlqReplay = defineCommand({
  name: 'dlq replay',
  summary: 'run a dead-lettered job again, with fresh attempts',
  ...ONE_JOB,
  options: ACT_OPTIONS,
  details: 'For many jobs, use "millrace operations create replay".',
  examples: ['millrace dlq replay JOB_ID --reason "the provider is back"'],
  async run(invocation: Invocation<typeof ACT_OPTIONS>) {
    const id = readJobId(invocation.args[0]);
    const done = await withDeadLetters(invocation, (letters) => letters.replay(id, reasonOf(invocation.values)));
    invocation.out.answer(done, () => [`Job ${done.jobId} is ${done.state}.`]);
    return EXIT.ok;
  },
});

export const dlqDiscard = defineCommand({
  name: 'dlq discard',
  summary: 'close a dead letter without running its job',
  ...ONE_JOB,
  options: ACT_OPTIONS,
  examples: ['millrace dlq discard JOB_ID --reason "a test order"'],
  async run(invocation: Invocation<typeof ACT_OPTIONS>) {
    const id = readJobId(invocation.args[0]);
    const done = await withDeadLetters(invocation, (letters) => letters.discard(id, reasonOf(invocation.values)));
    invocation.out.answer(done, () => [
      `Job ${done.jobId} is discarded. "millrace dlq restore" can undo that until ${done.undoUntil.toISOString()}.`,
    ]);
    return EXIT.ok;
  },
});

export const dlqRestore = defineCommand({
  name: 'dlq restore',
  summary: 'undo a discard, while there is time',
  ...ONE_JOB,
  options: ACT_OPTIONS,
  examples: ['millrace dlq restore JOB_ID'],
  async run(invocation: Invocation<typeof ACT_OPTIONS>) {
    const id = readJobId(invocation.args[0]);
    const done = await withDeadLetters(invocation, (letters) => letters.restore(id, reasonOf(invocation.values)));
    invocation.out.answer(done, () => [`The dead letter of job ${done.jobId} is open again.`]);
    return EXIT.ok;
  },
});

const FIX_OPTIONS = {
  ...ACT_OPTIONS,
  payload: { type: 'string', value: 'JSON', help: 'the payload of the new job, as JSON or @FILE' },
  patch: { type: 'string', value: 'JSON', help: 'a JSON Patch (RFC 6902) of the old payload, as JSON or @FILE' },
} as const;

export const dlqFix = defineCommand({
  name: 'dlq fix',
  summary: 'submit a new job with a corrected payload in the place of a dead one',
  ...ONE_JOB,
  options: FIX_OPTIONS,
  examples: [
    `millrace dlq fix JOB_ID --patch '[{"op":"replace","path":"/currency","value":"EUR"}]'`,
    'millrace dlq fix JOB_ID --payload @payload.json --reason "the address was wrong"',
  ],
  async run(invocation: Invocation<typeof FIX_OPTIONS>) {
    const { values } = invocation;
    const id = readJobId(invocation.args[0]);
    const correction = {
      payload: readJson(values.payload, 'payload'),
      patch: readJson(values.patch, 'patch') as readonly PatchStep[] | undefined,
    };
    const done = await withDeadLetters(invocation, (letters) => letters.fixForward(id, { ...correction, ...reasonOf(values) }));
    invocation.out.answer(done, () => [`Submitted job ${done.jobId} in the place of ${done.replacesJobId}.`]);
    return EXIT.ok;
  },
});

const reasonOf = ({ reason }: { reason?: string }) => (reason === undefined ? {} : { reason });

const errorText = ({ error }: Pick<DeadLetterView, 'error'>): string => {
  const { code, message } = publicFailure(error);
  return `${code}: ${message.slice(0, 200)}`;
};

function factsOf(entry: DeadLetterView & { payload: unknown }): string[] {
  const { actionPlan, undoUntil } = entry;
  return textFacts([
    ['job', entry.jobId],
    ['status', entry.status],
    ['type', entry.type],
    ['queue', entry.originQueue],
    ['category', entry.category],
    ['project', entry.projectId],
    ['died', `${entry.failedAt.toISOString()} (${entry.reason}), after ${entry.attempts} attempts`],
    ['error', errorText(entry)],
    ['group', entry.fingerprint],
    ['payload', JSON.stringify(entry.payload)],
    ['resolved', entry.resolvedAt === null ? null : `${entry.resolvedAt.toISOString()} by ${entry.resolvedBy}`],
    ['undo until', undoUntil?.toISOString()],
    ['replaced by', entry.replacedByJobId],
    ['recommended', actionPlan.recommended],
    ...actionPlan.steps.map((step, index) => [`step ${index + 1}`, step] as const),
  ]);
}
