/** Plots as inline SVG: no script, nothing loaded. */
import type { Bar } from './histogram.ts';
import type { Second } from './stats.ts';

const WIDTH = 640;
const HEIGHT = 160;
const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;

const INNER_WIDTH = WIDTH - LEFT - 8;
const INNER_HEIGHT = HEIGHT - TOP - BOTTOM;

type Line = { readonly name: string; readonly className: string; readonly values: readonly number[] };

/** Submitted jobs, finished jobs and failed requests per second. */
export function timelinePlot(seconds: readonly Second[]): string {
  const lines: Line[] = [
    { name: 'submitted', className: 'submitted', values: seconds.map(({ submitted }) => submitted) },
    { name: 'ended', className: 'ended', values: seconds.map(({ finished }) => finished) },
    { name: 'delayed, cut or failed', className: 'errors', values: seconds.map(({ errors }) => errors) },
  ];
  const highest = Math.max(1, ...lines.flatMap(({ values }) => values));
  const drawn = lines.map(({ className, values }) => {
    const points = values.map((value, index) => `${x(index, values.length)},${y(value, highest)}`);
    return `<polyline class="${className}" points="${points.join(' ')}"/>`;
  });
  const legend = lines.map(({ name, className }) => `<span class="${className}">${name}</span>`).join(' ');
  const label = `0 to ${seconds.length} s`;
  return `<p class="legend">${legend}</p>${frame({ highest, label, inside: drawn.join('') })}`;
}

/** Counts over a logarithmic axis of milliseconds. */
export function distributionPlot(bars: readonly Bar[]): string {
  if (bars.length === 0) return '<p>no data</p>';
  const highest = Math.max(1, ...bars.map(({ count }) => count));
  const width = INNER_WIDTH / bars.length;
  const drawn = bars.map(({ count, from, to }, index) => {
    const top = y(count, highest);
    const box = `x="${round(LEFT + index * width)}" y="${top}" width="${round(Math.max(1, width - 1))}" height="${round(TOP + INNER_HEIGHT - top)}"`;
    return `<rect ${box}><title>${ms(from)} to ${ms(to)}: ${count}</title></rect>`;
  });
  const label = `${ms(bars[0]?.from ?? 0)} to ${ms(bars.at(-1)?.to ?? 0)}, logarithmic`;
  return frame({ highest, label, inside: drawn.join('') });
}

function frame({ highest, label, inside }: { highest: number; label: string; inside: string }): string {
  const floor = TOP + INNER_HEIGHT;
  return [
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">`,
    `<path class="axis" d="M${LEFT} ${TOP}V${floor}H${WIDTH - 8}"/>`,
    `<text x="${LEFT - 6}" y="${TOP + 8}" text-anchor="end">${highest}</text>`,
    `<text x="${LEFT - 6}" y="${floor}" text-anchor="end">0</text>`,
    `<text x="${LEFT}" y="${HEIGHT - 4}">${label}</text>`,
    `${inside}</svg>`,
  ].join('');
}

const x = (index: number, of: number): number => round(LEFT + (of < 2 ? 0 : (index / (of - 1)) * INNER_WIDTH));
const y = (value: number, highest: number): number => round(TOP + INNER_HEIGHT * (1 - value / highest));
const round = (value: number): number => Math.round(value * 10) / 10;
const ms = (value: number): string => (value < 1_000 ? `${round(value)} ms` : `${round(value / 1_000)} s`);
