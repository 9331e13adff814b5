/** The one way in which tests wait for something that sends no signal. */
import { setTimeout as delay } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';

/** Less than the time limit of a test, so that the failure says what the test waited for. */
const PATIENCE_MS = 60_000;
const PAUSE_MS = { least: 2, most: 50 };
const SHOWN = { depth: 4, breakLength: 120, maxStringLength: 500, maxArrayLength: 20 };

type Wanted<T> = T | ((seen: T) => boolean);

/**
 * Looks again until it sees what is wanted: `true`, an equal value, or a value for which the function returns true. Each look takes
 * time from the work that it waits for. Therefore the pauses grow with the time waited, and with the time that a look takes.
 */
export async function until(what: string, look: () => boolean | Promise<boolean>): Promise<void>;
export async function until<T>(what: string, look: () => T | Promise<T>, wanted: Wanted<NoInfer<T>>): Promise<void>;
export async function until(what: string, look: () => unknown, wanted: unknown = true): Promise<void> {
  const isWanted = typeof wanted === 'function' ? wanted : (seen: unknown) => isDeepStrictEqual(seen, wanted);
  const sinceMs = performance.now();
  for (;;) {
    const lookedMs = performance.now();
    const seen = await look();
    if (isWanted(seen)) return;
    const waitedMs = performance.now() - sinceMs;
    if (waitedMs > PATIENCE_MS) throw inVain(what, seen);
    const lookMs = performance.now() - lookedMs;
    await delay(Math.min(Math.max(waitedMs / 10, 2 * lookMs, PAUSE_MS.least), PAUSE_MS.most));
  }
}

/** For a signal that may fail to come. `seen` tells what was there instead. */
export async function inTime<T>(what: string, signal: Promise<T>, seen: () => unknown): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(inVain(what, seen())), PATIENCE_MS);
  return Promise.race([signal, promise]).finally(() => clearTimeout(timer));
}

const inVain = (what: string, seen: unknown): Error => new Error(`Waited in vain until ${what}. Last seen: ${inspect(seen, SHOWN)}`);
