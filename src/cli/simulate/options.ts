import { EXPECTED_OUTCOMES, type ExpectedOutcome, WORK_KINDS, type WorkKind } from '../../core/execution/kinds.ts';
import type { Choice } from '../../simulator/plan.ts';
import type { RunOptions } from '../../simulator/run.ts';
import type { CommonValues, ValuesOf } from '../command.ts';
import { settingsOf } from '../connection.ts';
import { readDurationMs, readInteger, readList, readWord, readWords } from '../option-values.ts';
import { UsageError } from '../usage-error.ts';

export const SIMULATE_OPTIONS = {
  url: { type: 'string', value: 'URL', help: 'the server to drive; default http://127.0.0.1:8484' },
  embedded: { type: 'boolean', help: 'drive a server started for this run, on a database that is gone afterwards' },
  all: { type: 'boolean', help: 'every work kind; so it is unless kinds are named' },
  kinds: { type: 'string', multiple: true, value: 'A,B', help: 'these work kinds, in turn' },
  mix: { type: 'string', multiple: true, value: 'A=3,B=1', help: 'work kinds drawn at random by their weights' },
  clients: { type: 'string', value: 'N', help: 'clients to make and submit with; default 4' },
  jobs: { type: 'string', value: 'N', help: 'how many to drive; default: each kind once by every client' },
  duration: { type: 'string', value: 'DURATION', help: 'how long to go on submitting' },
  rate: { type: 'string', value: 'N/s', help: 'so many a second, however slowly they are answered' },
  concurrency: { type: 'string', value: 'N', help: 'so many under way at once; default 64' },
  seed: { type: 'string', value: 'N', help: 'what everything random is drawn from; default: the time' },
  'time-scale': {
    type: 'string',
    value: 'X',
    help: "what durations are multiplied by, as the server's own; default 1",
  },
  'far-future': { type: 'string', value: 'DURATION', help: 'when far future is, before the time scale; default 1h' },
  restart: { type: 'string', value: 'COMMAND', help: 'how to restart the server of --url' },
  'receiver-port': { type: 'string', value: 'N', help: 'where callbacks are received; default: a free port' },
  expect: {
    type: 'string',
    multiple: true,
    value: 'KIND=STATE',
    help: 'expect this instead of what the catalogue says',
  },
  html: { type: 'string', value: 'FILE', help: 'save a page with tables and plots' },
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
      ...{ plan: { choice, clients, jobs, seed, farFutureMs }, durationMs, pace: readPace(values), timeScale },
      expectations: readExpectations(values.expect),
      bootstrapToken: settingsOf(values).config.execution.bootstrapToken ?? undefined,
    },
    receiverPort: readInteger(values['receiver-port'], 'receiver-port', 0) ?? 0,
    html: values.html ?? null,
  };
}

function readHost({ url, embedded, restart, database }: Values): SimulateSettings['host'] {
  if (embedded !== true) return { kind: 'remote', url: readUrl(url ?? DEFAULT_URL), restart };
  refuseBoth({ embedded, url }, 'A server of its own has no address yet');
  refuseBoth({ embedded, restart }, 'A server of its own is restarted without being told how');
  return { kind: 'embedded', databaseUrl: database };
}

function readUrl(text: string): string {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return url.origin;
  throw new UsageError(`--url takes an address such as ${DEFAULT_URL}, not "${text}".`, 'simulate');
}

function readChoice({ all, kinds, mix }: Values): Choice {
  refuseBoth({ all, kinds }, 'All kinds, or those that are named');
  refuseBoth({ all, mix }, 'All kinds, or those of the mix');
  refuseBoth({ kinds, mix }, 'Kinds in turn, or drawn by weight');
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
  refuseBoth({ rate, concurrency }, 'A rate, or so many at once');
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
