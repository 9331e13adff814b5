import { EXIT } from './command.ts';

export type Stop = {
  readonly asked: Promise<NodeJS.Signals>;
  release(): void;
};

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** The first signal asks the command to stop; a second signal ends the process immediately. */
export function listenForStop(onForced: () => void): Stop {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let isAsked = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (!isAsked) {
      isAsked = true;
      return resolve(signal);
    }
    onForced();
    process.exit(EXIT.interrupted);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    asked: promise,
    release: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}

const LEFTOVERS_MS = 2_000;

/** Ends the process with its current exit code, even if a handler left something open. */
export function endSoon(): void {
  setTimeout(() => process.exit(), LEFTOVERS_MS).unref(); // The timer alone does not keep the process alive.
}
