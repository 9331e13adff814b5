import { setTimeout as sleep } from 'node:timers/promises';
import {
  actsOnDeadLetters,
  ITEM_RESULTS,
  OPERATION_ACTIONS,
  OPERATION_STATES,
  type OperationAction,
} from '../../core/governance/operation.ts';
import type { PatchStep } from '../../core/governance/payload-patch.ts';
import { JOB_STATES } from '../../core/states.ts';
import { OperationControls } from '../../services/operations/operation-controls.ts';
import type { OperationRequest } from '../../services/operations/operation-request.ts';
import type { Operation } from '../../services/operations/read-operations.ts';
import { defineCommand, EXIT, type Invocation, type ValuesOf } from '../command.ts';
import { withEngine } from '../connection.ts';
import { CLI_REQUESTER, ENTRY_OPTIONS, REASON_OPTION, readEntryFilter, readJson } from '../dead-letter-options.ts';
import { readInteger, readTags, readWord, readWords } from '../option-values.ts';
import { chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { listenForStop, orLeave } from '../stop-signals.ts';
import { textFacts, textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

type Call = Invocation<typeof ONE_ORG_OPTION>;

function withOperations<T>(invocation: Call, work: (operations: OperationControls) => Promise<T>): Promise<T> {
  return withEngine(invocation, async (engine) => {
    const { id } = await chosenOrg(engine, invocation.values);
    return work(new OperationControls(engine, id, { requester: CLI_REQUESTER }));
  });
}

const CREATE_OPTIONS = {
  ...ONE_ORG_OPTION,
  ...ENTRY_OPTIONS,
  state: { type: 'string', multiple: true, value: 'A,B', help: 'for retry and cancel: jobs in these states' },
  tag: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'for retry and cancel: jobs with this tag' },
  all: { type: 'boolean', help: 'every open dead letter' },
  payload: { type: 'string', value: 'JSON', help: 'for fix_forward: the payload of all new jobs, as JSON or @FILE' },
  patch: { type: 'string', value: 'JSON', help: 'for fix_forward: a JSON Patch of each payload, as JSON or @FILE' },
  'dry-run': { type: 'boolean', help: 'change nothing, and show what would happen' },
  canary: { type: 'string', value: 'N', help: 'send this many jobs first, and the others when these have ended' },
  rate: { type: 'string', value: 'N', help: 'jobs a second; default: 100' },
  'halt-rate': { type: 'string', value: 'SHARE', help: 'halt when more than this share of the jobs fails, such as 0.2' },
  'halt-after': { type: 'string', value: 'N', help: 'but not before this many jobs have ended; default: 20' },
  ...REASON_OPTION,
} as const;

type CreateValues = ValuesOf<typeof CREATE_OPTIONS>;

export const operationsCreate = defineCommand({
  name: 'operations create',
  summary: 'replay, discard or correct many dead letters, or retry or cancel many jobs',
  takes: `${OPERATION_ACTIONS.join('|')} [JOB_ID...]`,
  minArgs: 1,
  maxArgs: 10_001,
  options: CREATE_OPTIONS,
  details: 'A running "millrace up", "serve" or "work" carries it out. Follow it with "operations watch".',
  examples: [
    'millrace operations create replay --code PROVIDER_DOWN --canary 10 --rate 200 --reason "the provider is back"',
    `millrace operations create fix_forward --fingerprint ID --patch @patch.json --dry-run`,
    'millrace operations create cancel --type report --state scheduled,delayed',
  ],
  async run(invocation: Invocation<typeof CREATE_OPTIONS>) {
    const { values, out } = invocation;
    const request = readRequest(invocation.args, values);
    if (values['dry-run'] === true) {
      const preview = await withOperations(invocation, (operations) => operations.preview(request));
      out.answer(preview, () => [
        `${preview.matching} jobs match.`,
        ...preview.sample.flatMap(({ jobId, before, after, error }) => [
          `${jobId}`,
          `  before  ${JSON.stringify(before)}`,
          `  after   ${error ?? JSON.stringify(after)}`,
        ]),
      ]);
      return EXIT.ok;
    }
    const operation = await withOperations(invocation, (operations) => operations.create(request));
    out.answer({ operation }, () => [`Operation ${operation.id} is ${operation.state}: ${operation.matching} jobs match.`]);
    return EXIT.ok;
  },
});

function readRequest([word, ...ids]: readonly string[], values: CreateValues): OperationRequest {
  const action = readWord(word, 'action', OPERATION_ACTIONS);
  if (action === undefined) throw new UsageError('Name the action.', 'operations create');
  const { 'halt-rate': haltRate, 'halt-after': haltAfter, reason } = values;
  const failureRate = readNumber(haltRate, 'halt-rate');
  const after = readInteger(haltAfter, 'halt-after');
  return {
    action,
    ...(ids.length > 0 ? { jobIds: ids } : { filter: filterOf(action, values) }),
    payload: readJson(values.payload, 'payload'),
    patch: readJson(values.patch, 'patch') as readonly PatchStep[] | undefined,
    canary: readInteger(values.canary, 'canary', 0),
    rate: readNumber(values.rate, 'rate'),
    ...(failureRate === undefined && after === undefined ? {} : { halt: { failureRate, after } }),
    reason,
  };
}

function filterOf(action: OperationAction, values: CreateValues): OperationRequest['filter'] {
  if (!actsOnDeadLetters(action)) {
    const { type, state, tag } = values;
    return { types: type === undefined ? undefined : type.split(','), states: readWords(state, 'state', JOB_STATES), tags: readTags(tag) };
  }
  const filter = readEntryFilter(values);
  if (Object.keys(filter).length > 0 || values.all === true) return filter;
  throw new UsageError('Give job ids, a filter such as --fingerprint, or --all for every open dead letter.', 'operations create');
}

function readNumber(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new UsageError(`--${option} takes a number, not "${text}".`);
}

const LIST_OPTIONS = {
  ...ONE_ORG_OPTION,
  state: { type: 'string', value: 'STATE', help: `${OPERATION_STATES.join(', ')}` },
  limit: { type: 'string', value: 'N', help: 'how many at most, up to 1000; default: 100' },
} as const;

export const operationsList = defineCommand({
  name: 'operations list',
  summary: 'list operations, newest first',
  options: LIST_OPTIONS,
  examples: ['millrace operations list', 'millrace operations list --state halted --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const { values, out } = invocation;
    const state = readWord(values.state, 'state', OPERATION_STATES);
    const found = await withOperations(invocation, (operations) => operations.list({ state, limit: readInteger(values.limit, 'limit') }));
    const rows = found.operations.map((each) => [
      each.id,
      each.action,
      each.state,
      `${doneOf(each)} of ${each.matching}`,
      String(each.failed),
      each.createdAt.toISOString(),
    ]);
    out.answer(found, () =>
      rows.length === 0 ? ['There is no operation.'] : textTable(['operation', 'action', 'state', 'done', 'failed', 'created'], rows),
    );
    return EXIT.ok;
  },
});

const ONE = { takes: 'OPERATION_ID', minArgs: 1, maxArgs: 1 } as const;

export const operationsShow = defineCommand({
  name: 'operations show',
  summary: 'show one operation and its progress',
  ...ONE,
  options: ONE_ORG_OPTION,
  examples: ['millrace operations show OPERATION_ID'],
  async run(invocation: Call) {
    const operation = await withOperations(invocation, (operations) => operations.get(invocation.args[0] as string));
    invocation.out.answer({ operation }, () => factsOf(operation));
    return EXIT.ok;
  },
});

const ITEM_OPTIONS = {
  ...ONE_ORG_OPTION,
  result: { type: 'string', value: 'RESULT', help: `only jobs with this result: ${ITEM_RESULTS.join(', ')}` },
} as const;

export const operationsItems = defineCommand({
  name: 'operations items',
  summary: 'list the jobs of an operation, each once, with its result',
  ...ONE,
  options: ITEM_OPTIONS,
  examples: ['millrace operations items OPERATION_ID --result failed'],
  async run(invocation: Invocation<typeof ITEM_OPTIONS>) {
    const result = readWord(invocation.values.result, 'result', ITEM_RESULTS);
    const items = await withOperations(invocation, async (operations) => {
      const all = [];
      for (let cursor: string | null = null; ; ) {
        const page = await operations.items(invocation.args[0] as string, { result, limit: 1_000, cursor });
        all.push(...page.items);
        cursor = page.nextCursor;
        if (cursor === null) return all;
      }
    });
    const rows = items.map(({ jobId, result: each, newJobId, error }) => [jobId, each, newJobId ?? '', error ?? '']);
    invocation.out.answer({ items }, () => textTable(['job', 'result', 'new job', 'error'], rows));
    return EXIT.ok;
  },
});

const REASON_OPTIONS = { ...ONE_ORG_OPTION, ...REASON_OPTION } as const;

const controlCommand = (control: 'pause' | 'resume' | 'stop' | 'undo', summary: string) =>
  defineCommand({
    name: `operations ${control}`,
    summary,
    ...ONE,
    options: REASON_OPTIONS,
    examples: [`millrace operations ${control} OPERATION_ID`],
    async run(invocation: Invocation<typeof REASON_OPTIONS>) {
      const { reason } = invocation.values;
      const options = reason === undefined ? {} : { reason };
      const operation = await withOperations(invocation, (operations) => operations[control](invocation.args[0] as string, options));
      invocation.out.answer({ operation }, () => [`Operation ${operation.id} is ${operation.state}.`]);
      return EXIT.ok;
    },
  });

export const operationsPause = controlCommand('pause', 'send no more jobs of an operation until it is resumed');
export const operationsResume = controlCommand('resume', 'continue a paused or halted operation');
export const operationsStop = controlCommand('stop', 'end an operation; the jobs that it has not acted on are skipped');
export const operationsUndo = controlCommand('undo', 'stop an operation and take back what it did with jobs that have not started');

const WATCH_MS = 500;
const OVER: ReadonlySet<string> = new Set(['halted', 'completed', 'stopped']);

export const operationsWatch = defineCommand({
  name: 'operations watch',
  summary: 'follow an operation until it has ended or halted',
  ...ONE,
  options: ONE_ORG_OPTION,
  details: 'In a terminal it shows one line that changes. The exit code is 1 if the operation halted or a job failed.',
  isLongRunning: true,
  examples: ['millrace operations watch OPERATION_ID'],
  run(invocation: Call) {
    const stop = listenForStop(() => {});
    return orLeave(watch(invocation, stop.asked), { asked: stop.asked, code: EXIT.interrupted }).finally(() => stop.release());
  },
});

async function watch(invocation: Call, asked: Promise<unknown>): Promise<number> {
  const { out, args } = invocation;
  let isAsked = false;
  void asked.then(() => {
    isAsked = true;
  });
  const operation = await withOperations(invocation, async (operations) => {
    for (;;) {
      const now = await operations.get(args[0] as string);
      out.progress(lineOf(now));
      if (isAsked || OVER.has(now.state)) return now;
      await Promise.race([sleep(WATCH_MS), asked]);
    }
  });
  out.progress('');
  out.answer({ operation }, () => [lineOf(operation)]);
  if (isAsked) return EXIT.interrupted;
  return operation.state === 'halted' || operation.failed > 0 ? EXIT.failed : EXIT.ok;
}

const doneOf = ({ succeeded, failed, skipped }: Operation): number => succeeded + failed + skipped;

function lineOf(operation: Operation): string {
  const { id, state, matching, succeeded, failed, skipped, haltedBecause } = operation;
  const counts = `${doneOf(operation)} of ${matching} done, ${succeeded} succeeded, ${failed} failed, ${skipped} skipped`;
  return `Operation ${id} is ${state}: ${counts}.${haltedBecause === null ? '' : ` ${haltedBecause}`}`;
}

const factsOf = (operation: Operation): string[] =>
  textFacts([
    ['operation', operation.id],
    ['action', operation.action],
    ['state', operation.state],
    ['halted', operation.haltedBecause],
    ['matching', `${operation.matching}${operation.isListed ? '' : ', and counting'}`],
    ['sent', String(operation.sent)],
    ['succeeded', String(operation.succeeded)],
    ['failed', String(operation.failed)],
    ['skipped', String(operation.skipped)],
    ['undone', operation.undone === 0 ? null : String(operation.undone)],
    ['canary', String(operation.canary)],
    ['rate', `${operation.rate} a second`],
    ['filter', operation.filter === null ? null : JSON.stringify(operation.filter)],
    ['reason', operation.reason],
    ['created', `${operation.createdAt.toISOString()} by ${operation.actor}`],
    ['finished', operation.finishedAt?.toISOString()],
  ]);
