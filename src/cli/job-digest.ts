import { MAINTENANCE_TYPE } from '../core/maintenance.ts';
import { endText, failedText, type JobSource, lostText } from './job-reports.ts';
import type { Output } from './output.ts';

/** How many jobs get a line before a line each second counts them. */
const LINES = 10;
const EVERY_MS = 1_000;
const MAX_LENGTH = 300;

type Ending = 'completed' | 'failed' | 'cancelled';

/**
 * Prints a line when a job completes, fails or is cancelled. While jobs keep coming, only the first ones get a line; after them, a line
 * each second says how many there were. A second without jobs starts over. It is for people: programs read the event stream.
 */
export class JobDigest {
  readonly #out: Output;
  #shown = 0;
  #counts: Record<Ending, number> = { completed: 0, failed: 0, cancelled: 0 };
  #hasNews = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(out: Output) {
    this.#out = out;
  }

  watch(jobs: JobSource): void {
    jobs.on('completed', (facts) => {
      // Maintenance runs every minute. The command "maintenance list" shows it.
      if (facts.type !== MAINTENANCE_TYPE) this.#add('completed', () => endText('completed', facts));
    });
    jobs.on('cancelled', (facts) => this.#add('cancelled', () => endText('cancelled', facts)));
    jobs.on('lost', (facts) => this.#out.answer(null, () => [lostText(facts)]));
    jobs.on('failed', (facts) => this.#add('failed', () => failedText(facts)));
  }

  /** Prints what was counted since the last line. */
  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#print();
  }

  #add(ending: Ending, text: () => string): void {
    this.#hasNews = true;
    this.#timer ??= setInterval(() => this.#tick(), EVERY_MS).unref();
    if (this.#shown < LINES) {
      this.#shown += 1;
      this.#out.answer(null, () => [shortened(text())]);
    } else {
      this.#counts[ending] += 1;
    }
  }

  #tick(): void {
    this.#print();
    if (!this.#hasNews && this.#timer !== null) {
      clearInterval(this.#timer);
      this.#timer = null;
      this.#shown = 0;
    }
    this.#hasNews = false;
  }

  #print(): void {
    const { completed, failed, cancelled } = this.#counts;
    if (completed + failed + cancelled === 0) return;
    this.#counts = { completed: 0, failed: 0, cancelled: 0 };
    const text = `and ${completed} completed, ${failed} failed, ${cancelled} cancelled (--verbose shows each, --quiet none)`;
    this.#out.answer(null, () => [text]);
  }
}

const shortened = (text: string): string => (text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text);
