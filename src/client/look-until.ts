import { ApiError } from './errors.ts';
import { Deadline, pause } from './transport.ts';
import type { WaitOptions } from './wait-for-job.ts';

const FIRST_LOOK_MS = 100;
const LONGEST_LOOK_MS = 2_000;

type Look<T> = WaitOptions & {
  /** What is awaited, as the subject of a sentence. */
  what: string;
  read(signal: AbortSignal): Promise<T>;
  isOver(seen: T): boolean;
  /** Called with the first answer and with each change. */
  onProgress?(seen: T): void;
};

/** Reads something again and again until it is over. The pauses grow while nothing changes. */
export async function lookUntil<T>({ what, read, isOver, onProgress, timeout = Number.POSITIVE_INFINITY, signal }: Look<T>): Promise<T> {
  const deadline = new Deadline(timeout, signal);
  try {
    let known = '';
    for (let lookMs = FIRST_LOOK_MS; ; lookMs = Math.min(LONGEST_LOOK_MS, lookMs * 1.5)) {
      const seen = await read(deadline.signal);
      const text = JSON.stringify(seen);
      if (text !== known) {
        onProgress?.(seen);
        lookMs = FIRST_LOOK_MS;
      }
      known = text;
      if (isOver(seen)) return seen;
      await pause(lookMs, deadline.signal);
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (!deadline.hasPassed) throw error;
    throw new ApiError({ status: 0, code: 'TIMED_OUT', message: `${what} has not ended within ${timeout} ms.`, cause: error });
  } finally {
    deadline.clear();
  }
}
