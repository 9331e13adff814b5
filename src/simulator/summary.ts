import type { Bar, Quantiles } from './histogram.ts';
import type { Run } from './run.ts';
import type { Second } from './stats.ts';
import type { Finding, KindTally, PairCount } from './verifier.ts';

/** The results of a run. --json prints this object, and the HTML page shows it. */
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
  const { stats, verifier, wasInterrupted, deliveries, notes } = run;
  const kinds = verifier.kinds();
  const sum = (pick: (tally: KindTally) => number) => kinds.reduce((total, tally) => total + pick(tally), 0);
  const measures = { submit: stats.submitMs, wait: stats.waitMs, run: stats.runMs, request: stats.exchangeMs };
  const each = <T>(pick: (histogram: (typeof measures)[Measure]) => T) =>
    Object.fromEntries(Object.entries(measures).map(([name, one]) => [name, pick(one)])) as Record<Measure, T>;
  return {
    ok: verifier.problemCount === 0 && !wasInterrupted,
    wasInterrupted,
    ...facts,
    elapsedMs: Math.round(run.elapsedMs),
    driven: sum(({ driven }) => driven),
    asExpected: sum(({ asExpected }) => asExpected),
    jobs: sum(({ jobs }) => jobs),
    kinds,
    pairs: verifier.pairs(),
    problemCount: verifier.problemCount,
    problems: verifier.findings,
    latencyMs: each((histogram) => histogram.quantiles()),
    distributions: each((histogram) => histogram.bars(BARS)),
    seconds: stats.seconds,
    exchanges: Object.fromEntries([...stats.exchanges].sort()),
    deliveries,
    notes,
  };
}
