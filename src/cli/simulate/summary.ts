import { lookUp } from '../../core/dictionary.ts';
import type { Output } from '../output.ts';
import { textFacts, textTable } from '../text-table.ts';
import type { Bar, Quantiles } from './histogram.ts';
import type { Finding, KindTally, PairCount } from './jury.ts';
import type { Run } from './run.ts';
import type { Second } from './stats.ts';

/** Everything a run has shown, as --json prints it and the page draws it. */
export type Summary = {
  readonly ok: boolean;
  readonly wasInterrupted: boolean;
  readonly url: string;
  readonly seed: number;
  readonly timeScale: number;
  readonly clients: number;
  readonly elapsedMs: number;
  readonly driven: number;
  readonly asExpected: number;
  readonly jobs: number;
  readonly kinds: readonly KindTally[];
  readonly pairs: readonly PairCount[];
  readonly problemCount: number;
  readonly problems: readonly Finding[];
  readonly latencyMs: Readonly<Record<Measure, Quantiles>>;
  readonly distributions: Readonly<Record<Measure, readonly Bar[]>>;
  readonly seconds: readonly Second[];
  readonly exchanges: Readonly<Record<string, number>>;
  readonly deliveries: number;
  readonly notes: readonly string[];
};

export type Measure = 'submit' | 'wait' | 'run' | 'request';

export type Facts = Pick<Summary, 'url' | 'seed' | 'timeScale' | 'clients'>;

const BARS = 40;

export function summarize(run: Run, facts: Facts): Summary {
  const { stats, jury, wasInterrupted, deliveries, notes } = run;
  const kinds = jury.kinds();
  const sum = (pick: (tally: KindTally) => number) => kinds.reduce((total, tally) => total + pick(tally), 0);
  const measures = { submit: stats.submitMs, wait: stats.waitMs, run: stats.runMs, request: stats.exchangeMs };
  const each = <T>(pick: (histogram: (typeof measures)[Measure]) => T) =>
    Object.fromEntries(Object.entries(measures).map(([name, one]) => [name, pick(one)])) as Record<Measure, T>;
  return {
    ok: jury.problemCount === 0 && !wasInterrupted,
    ...{ wasInterrupted, ...facts, elapsedMs: Math.round(run.elapsedMs) },
    ...{ driven: sum(({ driven }) => driven), asExpected: sum(({ asExpected }) => asExpected) },
    ...{ jobs: sum(({ jobs }) => jobs), kinds, pairs: jury.pairs() },
    ...{ problemCount: jury.problemCount, problems: jury.findings },
    latencyMs: each((histogram) => histogram.quantiles()),
    distributions: each((histogram) => histogram.bars(BARS)),
    ...{ seconds: stats.seconds, exchanges: Object.fromEntries([...stats.exchanges].sort()) },
    ...{ deliveries, notes },
  };
}

const SHOWN_PROBLEMS = 20;

/** What a person reads in the terminal. */
export function summaryLines(summary: Summary, out: Pick<Output, 'paint'>): string[] {
  const { kinds, pairs, notes } = summary;
  return [
    ...textTable(['kind', 'expected', 'driven', 'as expected', 'jobs'], kinds.map(kindRow)),
    '',
    ...textTable(['ms', 'count', 'p50', 'p95', 'p99', 'max'], Object.entries(summary.latencyMs).map(latencyRow)),
    '',
    ...textFacts([
      [
        'steps',
        pairs
          .filter(({ isAllowed }) => isAllowed)
          .map(pairText)
          .join(', '),
      ],
      ['forbidden', forbiddenText(pairs)],
      [
        'requests',
        Object.values(summary.exchanges)
          .reduce((sum, one) => sum + one, 0)
          .toString(),
      ],
      ['deliveries', `${summary.deliveries} received`],
      ['seed', String(summary.seed)],
      ...notes.map((note) => ['note', note] as const),
    ]),
    '',
    ...problemLines(summary),
    verdict(summary, out),
  ];
}

const kindRow = ({ kind, expected, driven, asExpected, jobs }: KindTally): string[] => [
  ...[kind, expected, String(driven)],
  asExpected === driven ? String(asExpected) : `${asExpected}  DIFFERS`,
  String(jobs),
];

const LABELS: Readonly<Record<string, string>> = {
  submit: 'submit, from the intended time',
  wait: 'due or accepted, until it ran',
  run: 'the last run',
  request: 'any request',
};

const latencyRow = ([name, { count, p50, p95, p99, max }]: [string, Quantiles]): string[] => [
  ...[lookUp(LABELS, name) ?? name, String(count)],
  ...[p50, p95, p99, max].map(String),
];

const pairText = ({ from, to, count }: PairCount): string => `${from} -> ${to} ${count}`;

function forbiddenText(pairs: readonly PairCount[]): string {
  const forbidden = pairs.filter(({ isAllowed }) => !isAllowed);
  const seen = forbidden.filter(({ count }) => count > 0);
  return seen.length === 0 ? `none of the ${forbidden.length} was seen` : seen.map(pairText).join(', ');
}

function problemLines({ problems, problemCount }: Summary): string[] {
  if (problemCount === 0) return [];
  const shown = problems.slice(0, SHOWN_PROBLEMS);
  const rest = problemCount - shown.length;
  return [
    ...shown.map(({ kind, jobId, problem }) => [kind, jobId, problem].filter((part) => part !== null).join('  ')),
    ...(rest > 0 ? [`and ${rest} more; --json lists them`] : []),
    '',
  ];
}

function verdict(summary: Summary, out: Pick<Output, 'paint'>): string {
  const { driven, asExpected, jobs, kinds, elapsedMs, problemCount } = summary;
  const took = `${(elapsedMs / 1_000).toFixed(1)} s`;
  if (summary.wasInterrupted) return out.paint('red', `Interrupted after ${took}; nothing was checked.`);
  if (problemCount === 0) {
    const what = `${kinds.length} kinds, ${driven} scenarios, ${jobs} jobs in ${took}`;
    return out.paint('green', `As the catalogue says: ${what}.`);
  }
  return out.paint(
    'red',
    `${driven - asExpected} of ${driven} scenarios differ (${problemCount} problems) in ${took}.`,
  );
}
