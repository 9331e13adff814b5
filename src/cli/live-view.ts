import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { AppError, isAppError } from '../core/errors.ts';
import { isPassing } from '../ledger/driver/statement.ts';
import type { Output } from './output.ts';
import { PLAIN_SIZE, type Shown, topScreen } from './top-screen.ts';

export type Look = () => Promise<Shown>;

/** A sentence for people, and the error behind it. */
type Trouble = { notice: string; error: Error };

/** Where the live view appears. */
type View = {
  show(shown: Shown): void;
  /** The database does not respond. What was shown last is out of date. */
  warn(trouble: Trouble): void;
  close(): void;
  /** Calls back when the user wants to leave, by other ways than a signal. */
  onQuit(quit: () => void): void;
};

type LiveParams = { look: Look; everyMs: number; ending: AbortController; view: View };

/** A look takes milliseconds. After this time the user learns why nothing moves. */
const SLOW_MS = 3_000;
const SLOW: Trouble = {
  notice: 'The database does not respond. Retrying until it does.',
  error: new AppError('DATABASE_UNREACHABLE', { message: `no response for ${SLOW_MS / 1_000} s` }),
};

/** Shows what it sees, again and again. It outlives a restart of the database, and ends even if a look never does. */
export async function lookUntilEnded({ look, everyMs, ending, view }: LiveParams): Promise<void> {
  const { signal } = ending;
  const ended = once(signal, 'abort');
  view.onQuit(() => ending.abort());
  try {
    while (!signal.aborted) {
      await Promise.race([lookOnce(look, view, signal), ended]);
      await pause(everyMs, undefined, { signal }).catch(() => {});
    }
  } finally {
    view.close();
  }
}

async function lookOnce(look: Look, view: View, signal: AbortSignal): Promise<void> {
  const warn = (trouble: Trouble) => {
    if (!signal.aborted) view.warn(trouble);
  };
  const timer = setTimeout(() => warn(SLOW), SLOW_MS);
  try {
    const shown = await look();
    if (!signal.aborted) view.show(shown);
  } catch (error) {
    if (!(error instanceof Error) || !isPassing(error)) throw error;
    warn({ notice: 'The database is unreachable. Retrying until it is back.', error });
  } finally {
    clearTimeout(timer);
  }
}

/** The message of the database driver, if an AppError wraps it. */
function reasonOf(error: Error): string {
  if (isAppError(error) && error.cause instanceof Error) return reasonOf(error.cause);
  return error.message || (error as NodeJS.ErrnoException).code || error.name;
}

/** One object for each look. An outage is one error on stderr. */
export class JsonView implements View {
  readonly #out: Output;
  #isLost = false;

  constructor(out: Output) {
    this.#out = out;
  }

  show(shown: Shown): void {
    this.#isLost = false;
    this.#out.answer(shown, () => []);
  }

  warn({ error }: Trouble): void {
    if (!this.#isLost) this.#out.error(error);
    this.#isLost = true;
  }

  onQuit(): void {}

  close(): void {}
}

const CTRL_C = 0x03;
/** The end of input, which a terminal passes on as a key while it sends every key at once. */
const CTRL_D = 0x04;

/** The other screen of the terminal, so that the lines of the shell are there again afterwards. */
export class ScreenView implements View {
  #shown: Shown | null = null;
  #release = () => {};

  constructor() {
    process.stdout.write('\u001b[?1049h\u001b[?25l');
  }

  show(shown: Shown): void {
    this.#shown = shown;
    this.#draw(topScreen({ shown }, this.#size));
  }

  warn({ notice, error }: Trouble): void {
    this.#draw(topScreen({ shown: this.#shown, notice: [notice, reasonOf(error)] }, this.#size));
  }

  onQuit(quit: () => void): void {
    const { stdin } = process;
    if (stdin.isTTY !== true) return;
    const onData = (data: Buffer) => {
      if (data.includes('q') || data.includes(CTRL_C) || data.includes(CTRL_D)) quit();
    };
    stdin.setRawMode(true);
    // A terminal that is gone ends its input, or fails it.
    stdin.on('data', onData).on('end', quit).on('error', quit).resume();
    this.#release = () => {
      stdin.off('data', onData).off('end', quit).pause();
      stdin.setRawMode(false);
    };
  }

  close(): void {
    this.#release();
    process.stdout.write('\u001b[?25h\u001b[?1049l');
  }

  get #size() {
    const { columns, rows } = process.stdout;
    return { columns: columns ?? PLAIN_SIZE.columns, rows: rows ?? PLAIN_SIZE.rows };
  }

  /** Overwrites line by line and clears the rest: nothing flickers. */
  #draw(lines: readonly string[]): void {
    process.stdout.write(`\u001b[H${lines.map((line) => `${line}\u001b[K`).join('\n')}\u001b[J`);
  }
}
