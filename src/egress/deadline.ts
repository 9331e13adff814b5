import { EgressFault } from './fault.ts';

/** Node fires a longer timer immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Aborts a whole exchange: at its timeout, when the caller aborts, or when a part of it fails. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;
  readonly #onCallerAbort = () => this.end(new EgressFault('ABORTED', 'the caller aborted the request'));

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    this.#timer = setTimeout(
      () => this.end(new EgressFault('TIMEOUT', `the request did not finish within ${timeoutMs} ms`)),
      Math.min(timeoutMs, LONGEST_TIMER_MS),
    );
    this.#caller = caller;
    if (caller?.aborted) this.#onCallerAbort();
    else caller?.addEventListener('abort', this.#onCallerAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the exchange with the fault after a time. Returns a function that cancels this. */
  endAfter(ms: number, fault: () => EgressFault): () => void {
    const timer = setTimeout(() => this.end(fault()), Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }

  /** The first fault wins. */
  end(fault: EgressFault): void {
    this.#controller.abort(fault);
  }

  /** Stops the timer and the watch on the caller. */
  release(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#onCallerAbort);
  }
}

/** An error costs time to make, so it is made only if the time is over. */
type Bounds = { readonly ms: number; readonly signal: AbortSignal; readonly fault: () => EgressFault };

/**
 * Runs one phase of an exchange with a time limit. Work that ignores its signal is not awaited, so it must release its resources
 * when the signal fires.
 */
export async function within<T>(bounds: Bounds, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  bounds.signal.throwIfAborted();
  const limit = new AbortController();
  const { signal } = limit;
  const timer = setTimeout(() => limit.abort(bounds.fault()), bounds.ms);
  // A composite signal would cost more than the rest of a request on an idle connection.
  const onOuterAbort = () => limit.abort(bounds.signal.reason);
  bounds.signal.addEventListener('abort', onOuterAbort, { once: true });
  const { promise: ended, reject } = Promise.withResolvers<never>();
  signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  try {
    return await Promise.race([work(signal), ended]);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    clearTimeout(timer);
    bounds.signal.removeEventListener('abort', onOuterAbort);
  }
}
