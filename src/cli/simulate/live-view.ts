import type { Stats } from '../../simulator/stats.ts';
import type { Output } from '../output.ts';

const REDRAW_MS = 250;
const LINE_MS = 2_000;

/** Shows how a run goes: a picture that is redrawn where a person watches, a line now and then elsewhere. */
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
    if (this.#drawnLines > 0) this.#out.progress(above(this.#drawnLines));
    this.#drawnLines = 0;
  }

  #draw(stats: Stats): void {
    // A line that wrapped would be two, and the next picture begin in the wrong place.
    const columns = process.stderr.columns ?? 80;
    const drawn = lines(stats).map((line) => line.slice(0, columns - 1));
    this.#out.progress(`${above(this.#drawnLines)}${drawn.join('\n')}`);
    this.#drawnLines = drawn.length;
  }
}

/** Moves to the first of the lines drawn before, and wipes them. */
const above = (drawn: number): string => (drawn === 0 ? '' : `${drawn > 1 ? `\u001b[${drawn - 1}A` : ''}\r\u001b[0J`);

function lines(stats: Stats): string[] {
  const seconds = ((performance.now() - stats.startedMs) / 1_000).toFixed(1);
  const { submitted, finished } = stats.lastSecond;
  const states = [...stats.ended].filter(([, count]) => count > 0).map(([state, count]) => `${state} ${count}`);
  const underWay = stats.submitted - stats.finishedCount;
  return [
    `${seconds} s: submitted ${stats.submitted} (${submitted}/s), ended ${stats.finishedCount} (${finished}/s), under way ${underWay}`,
    states.length === 0 ? 'none has ended' : states.join(', '),
    `submit p50 ${stats.submitMs.quantile(0.5)} ms, p99 ${stats.submitMs.quantile(0.99)} ms; ${troubles(stats)}`,
  ];
}

const troubles = ({ exchangeMs, pauses, cuts, faults }: Stats): string =>
  `requests ${exchangeMs.count}, told to wait ${pauses}, cut ${cuts}, failed ${faults}`;
