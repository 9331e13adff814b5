import { lookUp } from '../../core/dictionary.ts';
import type { Quantiles } from '../../simulator/histogram.ts';
import type { Summary } from '../../simulator/summary.ts';
import type { KindTally, PairCount } from '../../simulator/verifier.ts';
import type { Output } from '../output.ts';
import { textFacts, textTable } from '../text-table.ts';

const SHOWN_PROBLEMS = 20;

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
  kind,
  expected,
  String(driven),
  asExpected === driven ? String(asExpected) : `${asExpected}  DIFFERS`,
  String(jobs),
];

const LABELS: Readonly<Record<string, string>> = {
  submit: 'submit, from the planned time',
  wait: 'from due or accepted until running',
  run: 'the last run',
  request: 'any request',
};

const latencyRow = ([name, { count, p50, p95, p99, max }]: [string, Quantiles]): string[] => [
  lookUp(LABELS, name) ?? name,
  ...[count, p50, p95, p99, max].map(String),
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
    return out.paint('green', `Every job ended as expected: ${what}.`);
  }
  return out.paint('red', `${driven - asExpected} of ${driven} scenarios differ (${problemCount} problems) in ${took}.`);
}
