import { setTimeout as pause } from 'node:timers/promises';
import { EXIT } from './command.ts';

export type Stop = {
  readonly asked: Promise<NodeJS.Signals>;
  release(): void;
};

/** SIGHUP comes when a terminal closes. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** npm and npx set it for the programs that they start. */
const isRunByNpm = process.env.npm_lifecycle_event !== undefined;
/** The terminal sends Ctrl-C to npm and to this process, and npm sends it once more. Both signals are one request. */
const SAME_REQUEST_MS = isRunByNpm ? 1_000 : 0;
/** On a busy machine, the one that npm sends may come later than that. A person who insists sends at least one more. */
const LATE_REPEAT_MS = isRunByNpm ? 10_000 : 0;
const PARENT_CHECK_MS = 100;

/** The first signal asks the command to stop; a second signal ends the process immediately. */
export function listenForStop(onForced: () => void): Stop {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let askedMs: number | null = null;
  let isRepeated = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (askedMs === null) {
      askedMs = performance.now();
      return resolve(signal);
    }
    const sinceMs = performance.now() - askedMs;
    const isSameRequest = sinceMs < SAME_REQUEST_MS || (!isRepeated && sinceMs < LATE_REPEAT_MS);
    isRepeated = true;
    if (isSameRequest) return;
    onForced();
    process.exit(EXIT.interrupted);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const parentWatch = isRunByNpm ? watchParent(() => resolve('SIGTERM')) : undefined;
  return {
    asked: promise,
    release: () => {
      clearInterval(parentWatch);
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}

/**
 * npm and npx start programs in a shell and pass SIGTERM to that shell. Some shells, such as dash, then end without passing it on.
 * So the end of the shell is the signal. Only npm's shell is watched: others may leave programs running on purpose.
 */
function watchParent(onGone: () => void): NodeJS.Timeout {
  const parent = process.ppid;
  return setInterval(() => {
    if (process.ppid !== parent) onGone();
  }, PARENT_CHECK_MS).unref();
}

/** Long enough to close the connections of a database that responds. */
const LEAVE_MS = 500;

/**
 * Returns what the work returns. If the user wants to leave and the work does not end, returns `code`: a database that does not respond
 * must not keep a command that only reads.
 */
export function orLeave(work: Promise<number>, { asked, code }: { asked: Promise<unknown>; code: number }): Promise<number> {
  const over = new AbortController();
  const left = asked.then(() => pause(LEAVE_MS, code, { signal: over.signal }));
  return Promise.race([work, left]).finally(() => over.abort());
}

const LEFTOVERS_MS = 2_000;

/** Ends the process with its current exit code, even if a handler left something open. */
export function endSoon(): void {
  setTimeout(() => process.exit(), LEFTOVERS_MS).unref(); // The timer alone does not keep the process alive.
}
