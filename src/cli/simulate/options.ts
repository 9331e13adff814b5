import { EXPECTED_OUTCOMES, type ExpectedOutcome, WORK_KINDS, type WorkKind } from '../../core/execution/kinds.ts';
import type { Choice } from '../../simulator/plan.ts';
import type { RunOptions } from '../../simulator/run.ts';
import type { CommonValues, ValuesOf } from '../command.ts';
import { settingsOf } from '../connection.ts';
import { readDurationMs, readInteger, readList, readWord, readWords } from '../option-values.ts';
import { UsageError } from '../usage-error.ts';

export const SIMULATE_OPTIONS = {
  url: { type: 'string', value: 'URL', help: 'the server to test; default http://127.0.0.1:8484' },
  embedded: { type: 'boolean', help: 'start a server for this run, on a temporary database' },
  all: { type: 'boolean', help: 'run every work kind; this is the default' },
  kinds: { type: 'string', multiple: true, value: 'A,B', help: 'run these work kinds, in turn' },
  mix: { type: 'string', multiple: true, value: 'A=3,B=1', help: 'choose work kinds at random by these weights' },
  clients: { type: 'string', value: 'N', help: 'how many clients to create; default 4' },
  jobs: { type: 'string', value: 'N', help: 'how many jobs to run; default: each kind once for every client' },
  duration: { type: 'string', value: 'DURATION', help: 'how long to submit jobs' },
  rate: { type: 'string', value: 'N/s', help: 'submissions per second, however slow the server is' },
  concurrency: { type: 'string', value: 'N', help: 'how many jobs are in flight at the same time; default 64' },
  seed: { type: 'string', value: 'N', help: 'the seed of all random choices; default: the time' },
  'time-scale': {
    type: 'string',
    value: 'X',
    help: 'the factor for durations, the same as on the server; default 1',
  },
  'far-future': {
    type: 'string',
    value: 'DURATION',
    help: 'the delay of jobs in the far future, before the time scale; default 1h',
  },
  restart: { type: 'string', value: 'COMMAND', help: 'the command that restarts the server of --url' },
  'receiver-port': { type: 'string', value: 'N', help: 'the port that receives callbacks; default: a free port' },
  expect: {
    type: 'string',
    multiple: true,
    value: 'KIND=STATE',
    help: 'expect this state instead of the one in the list of work kinds',
  },
  html: { type: 'string', value: 'FILE', help: 'save an HTML page with tables and plots' },
} as const;

export type SimulateSettings = {
  readonly host:
    | { readonly kind: 'embedded'; readonly databaseUrl?: string }
    | { readonly kind: 'remote'; readonly url: string; readonly restart?: string };
  readonly run: Omit<RunOptions, 'signal' | 'onStart' | 'receiver'>;
  readonly receiverPort: number;
  readonly html: string | null;
};

type Values = ValuesOf<typeof SIMULATE_OPTIONS> & CommonValues;

const DEFAULT_URL = 'http://127.0.0.1:8484';
const DEFAULT_MIX_JOBS = 100;
const MAX_TIME_SCALE = 1_000;

export function readOptions(values: Values): SimulateSettings {
  const choice = readChoice(values);
  const clients = readInteger(values.clients, 'clients') ?? 4;
  const timeScale = readNumber(values['time-scale'], 'time-scale', MAX_TIME_SCALE) ?? 1;
  const durationMs = readDurationMs(values.duration, 'duration') ?? null;
  const farFutureMs = (readDurationMs(values['far-future'], 'far-future') ?? 3_600_000) * timeScale;
  const seed = readInteger(values.seed, 'seed', 0) ?? Date.now();
  const jobs = readJobs(values, { choice, clients, durationMs });
  return {
    host: readHost(values),
    run: {
      plan: { choice, clients, jobs, seed, farFutureMs },
      durationMs,
      pace: readPace(values),
      timeScale,
      expectations: readExpectations(values.expect),
      bootstrapToken: settingsOf(values).config.execution.bootstrapToken ?? undefined,
    },
    receiverPort: readInteger(values['receiver-port'], 'receiver-port', 0) ?? 0,
    html: values.html ?? null,
  };
}

function readHost({ url, embedded, restart, database }: Values): SimulateSettings['host'] {
  if (embedded !== true) return { kind: 'remote', url: readUrl(url ?? DEFAULT_URL), restart };
  refuseBoth({ embedded, url }, 'The embedded server has no address yet');
  refuseBoth({ embedded, restart }, 'The embedded server is restarted without a command');
  return { kind: 'embedded', databaseUrl: database };
}

function readUrl(text: string): string {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return url.origin;
  throw new UsageError(`--url takes an address such as ${DEFAULT_URL}, not "${text}".`, 'simulate');
}

function readChoice({ all, kinds, mix }: Values): Choice {
  refuseBoth({ all, kinds }, 'Run all kinds, or name some');
  refuseBoth({ all, mix }, 'Run all kinds, or name some with weights');
  refuseBoth({ kinds, mix }, 'Run kinds in turn, or choose them by weight');
  if (mix !== undefined) return { order: 'mix', weights: readWeights(readList(mix) ?? []) };
  return { order: 'each', kinds: readWords(kinds, 'kinds', WORK_KINDS) ?? WORK_KINDS };
}

function readWeights(entries: readonly string[]): ReadonlyMap<WorkKind, number> {
  const pairs = entries.map((entry) => {
    const [kind, weight] = readPair(entry, 'mix');
    return [readWord(kind, 'mix', WORK_KINDS) as WorkKind, readNumber(weight, 'mix') as number] as const;
  });
  if (pairs.length === 0) throw new UsageError('--mix takes kinds with weights: SUCCESS_FAST=3,FAIL_IMMEDIATE=1.');
  return new Map(pairs);
}

function readExpectations(entries: readonly string[] | undefined): ReadonlyMap<WorkKind, ExpectedOutcome> {
  const pairs = (readList(entries) ?? []).map((entry) => {
    const [kind, state] = readPair(entry, 'expect');
    const expected = readWord(state, 'expect', EXPECTED_OUTCOMES) as ExpectedOutcome;
    return [readWord(kind, 'expect', WORK_KINDS) as WorkKind, expected] as const;
  });
  return new Map(pairs);
}

function readPair(entry: string, option: string): [string, string] {
  const [name, value, ...more] = entry.split('=');
  if (name && value && more.length === 0) return [name, value];
  throw new UsageError(`--${option} takes NAME=VALUE, not "${entry}".`, 'simulate');
}

type Wanted = { choice: Choice; clients: number; durationMs: number | null };

function readJobs(values: Values, { choice, clients, durationMs }: Wanted): number {
  const named = readInteger(values.jobs, 'jobs');
  if (named !== undefined) return named;
  if (durationMs !== null) return Number.POSITIVE_INFINITY;
  return choice.order === 'mix' ? DEFAULT_MIX_JOBS : choice.kinds.length * clients;
}

function readPace({ rate, concurrency }: Values): RunOptions['pace'] {
  refuseBoth({ rate, concurrency }, 'Limit the rate, or the number of jobs in flight');
  if (rate === undefined) return { concurrency: readInteger(concurrency, 'concurrency') ?? 64 };
  return { ratePerSecond: readNumber(rate.replace(/\/s$/, ''), 'rate') as number };
}

function readNumber(text: string | undefined, option: string, max = 1_000_000): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && value > 0 && value <= max) return value;
  throw new UsageError(`--${option} takes a number above 0 and up to ${max}, not "${text}".`, 'simulate');
}

function refuseBoth(pair: Readonly<Record<string, unknown>>, why: string): void {
  const given = Object.entries(pair).filter(([, value]) => value !== undefined && value !== false);
  if (given.length < 2) return;
  const [first, second] = given.map(([name]) => `--${name}`);
  throw new UsageError(`${first} and ${second} cannot be given together. ${why}.`, 'simulate');
}
