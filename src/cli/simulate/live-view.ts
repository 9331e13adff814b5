import type { Stats } from '../../simulator/stats.ts';
import type { Output } from '../output.ts';

const REDRAW_MS = 250;
const LINE_MS = 2_000;

/** Shows the progress of a run: redrawn lines on a terminal, otherwise one line every two seconds. */
export class LiveView {
  readonly #out: Output;
  #timer: NodeJS.Timeout | null = null;
  #drawnLines = 0;

  constructor(out: Output) {
    this.#out = out;
  }

  start(stats: Stats): void {
    const show = this.#out.isTty ? () => this.#draw(stats) : () => this.#out.note(lines(stats).join('; '));
    this.#timer = setInterval(show, this.#out.isTty ? REDRAW_MS : LINE_MS);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#drawnLines > 0) this.#out.progress('', above(this.#drawnLines));
    this.#drawnLines = 0;
  }

  #draw(stats: Stats): void {
    // A wrapped line would take two rows, and the next redraw would start in the wrong row.
    const columns = process.stderr.columns ?? 80;
    const drawn = lines(stats).map((line) => line.slice(0, columns - 1));
    this.#out.progress(drawn, above(this.#drawnLines));
    this.#drawnLines = drawn.length;
  }
}

/** Moves the cursor to the first of the drawn lines and clears them. */
const above = (drawn: number): string => (drawn === 0 ? '' : `${drawn > 1 ? `\u001b[${drawn - 1}A` : ''}\r\u001b[0J`);

function lines(stats: Stats): string[] {
  const seconds = ((performance.now() - stats.startedMs) / 1_000).toFixed(1);
  const { submitted, finished } = stats.lastSecond;
  const states = [...stats.ended].filter(([, count]) => count > 0).map(([state, count]) => `${state} ${count}`);
  const underWay = stats.submitted - stats.finishedCount;
  return [
    `${seconds} s: submitted ${stats.submitted} (${submitted}/s), ended ${stats.finishedCount} (${finished}/s), in flight ${underWay}`,
    states.length === 0 ? 'no job has ended' : states.join(', '),
    `submit p50 ${stats.submitMs.quantile(0.5)} ms, p99 ${stats.submitMs.quantile(0.99)} ms; ${troubles(stats)}`,
  ];
}

const troubles = ({ exchangeMs, pauses, cuts, faults }: Stats): string =>
  `requests ${exchangeMs.count}, delayed ${pauses}, cut ${cuts}, failed ${faults}`;
