import { EXECUTION_STATES } from '../core/execution/states.ts';
import { distributionPlot, timelinePlot } from './html-plots.ts';
import type { Measure, Summary } from './summary.ts';
import type { PairCount } from './verifier.ts';

const STYLE = `
  :root { color-scheme: light dark; --line: #8884; --good: #2a8a4a; --bad: #c0392b; --one: #3672c9; --two: #d08a1d; }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
  th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: left; }
  td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
  .good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .never { opacity: .35; }
  svg { width: 100%; max-width: 40rem; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
  svg .axis { fill: none; stroke: currentColor; opacity: .4; } svg rect { fill: var(--one); }
  polyline { fill: none; stroke-width: 1.5; }
  polyline.submitted { stroke: var(--one); } polyline.ended { stroke: var(--good); } polyline.errors { stroke: var(--bad); }
  .legend .submitted { color: var(--one); } .legend .ended { color: var(--good); } .legend .errors { color: var(--bad); }
`;

const PLOTS: readonly (readonly [Measure, string])[] = [
  ['submit', 'Submit, from the planned time to the response'],
  ['wait', 'From due or accepted to running'],
  ['run', 'The last run of a job'],
  ['request', 'Any request'],
];

/** A page without external resources. */
export function htmlReport(summary: Summary): string {
  const verdict = summary.ok ? 'Every job ended as expected' : 'Some jobs differ';
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>Millrace simulator: ${verdict}</title><style>${STYLE}</style></head><body>`,
    `<h1 class="${summary.ok ? 'good' : 'bad'}">${verdict}</h1>`,
    factTable(summary),
    '<h2>Kinds</h2>',
    kindTable(summary),
    summary.problemCount === 0 ? '' : `<h2>Problems</h2>${problemTable(summary)}`,
    `<h2>By the second</h2>${timelinePlot(summary.seconds)}`,
    ...PLOTS.map(([measure, title]) => `<h2>${title}</h2>${distributionPlot(summary.distributions[measure])}`),
    '<h2>Quantiles in milliseconds</h2>',
    quantileTable(summary),
    '<h2>Steps between states</h2>',
    pairTable(summary.pairs),
    '<h2>Requests</h2>',
    table(
      ['request', 'responses'],
      Object.entries(summary.exchanges).map(([name, count]) => [name, count]),
    ),
    '</body></html>\n',
  ].join('\n');
}

function factTable(summary: Summary): string {
  const { driven, asExpected, jobs, elapsedMs, clients, url, seed, timeScale, deliveries, notes } = summary;
  const rows: Row[] = [
    ['scenarios', driven],
    ['as expected', asExpected],
    ['jobs', jobs],
    ['clients', clients],
    ['seconds', Math.round(elapsedMs / 100) / 10],
    ['server', url],
    ['seed', seed],
    ['time scale', timeScale],
    ['deliveries received', deliveries],
    ...notes.map((note): Row => ['note', note]),
  ];
  return table(['fact', 'value'], rows);
}

const kindTable = ({ kinds }: Summary): string =>
  table(
    ['kind', 'expected', 'driven', 'as expected', 'jobs', 'canceled too late'],
    kinds.map((tally) => [tally.kind, tally.expected, tally.driven, tally.asExpected, tally.jobs, tally.missed]),
    kinds.map(({ driven, asExpected }) => (driven === asExpected ? '' : 'bad')),
  );

const problemTable = ({ problems }: Summary): string =>
  table(
    ['kind', 'job', 'problem'],
    problems.map(({ kind, jobId, problem }) => [kind ?? '', jobId ?? '', problem]),
  );

const quantileTable = ({ latencyMs }: Summary): string =>
  table(
    ['', 'count', 'p50', 'p95', 'p99', 'max'],
    PLOTS.map(([measure, title]) => {
      const { count, p50, p95, p99, max } = latencyMs[measure];
      return [title, count, p50, p95, p99, max];
    }),
  );

/** All 49 pairs: allowed ones in green, observed forbidden ones in red. */
function pairTable(pairs: readonly PairCount[]): string {
  const head = EXECUTION_STATES.map((to) => `<th class="number">${to}</th>`).join('');
  const rows = EXECUTION_STATES.map((from) => {
    const cells = EXECUTION_STATES.map((to) => {
      const pair = pairs.find((one) => one.from === from && one.to === to);
      const count = pair?.count ?? 0;
      const look = pair?.isAllowed === true ? 'good' : count > 0 ? 'bad' : 'never';
      return `<td class="number ${look}">${count}</td>`;
    });
    return `<tr><th>${from}</th>${cells.join('')}</tr>`;
  });
  return `<table><tr><th>from, to</th>${head}</tr>${rows.join('')}</table>`;
}

type Row = readonly (string | number)[];

function table(head: readonly string[], rows: readonly Row[], looks: readonly string[] = []): string {
  const cell = (value: string | number) =>
    typeof value === 'number' ? `<td class="number">${value}</td>` : `<td>${escapeHtml(value)}</td>`;
  const lines = rows.map((row, index) => `<tr class="${looks[index] ?? ''}">${row.map(cell).join('')}</tr>`);
  return `<table><tr>${head.map((name) => `<th>${escapeHtml(name)}</th>`).join('')}</tr>${lines.join('')}</table>`;
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
