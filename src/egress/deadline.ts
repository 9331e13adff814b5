import { EgressFault } from './fault.ts';

/** Node fires a longer timer immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Ends a whole exchange: at its timeout, when the caller aborts, or when a part of it fails. A request on an idle connection needs no signal, which
 * costs more than this object, so it is made on first use.
 */
export class Deadline {
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;
  readonly #onCallerAbort = () => this.abort();
  readonly #listeners = new Set<() => void>();
  #controller: AbortController | null = null;
  #fault: EgressFault | null = null;

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
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#fault !== null) this.#controller.abort(this.#fault);
    }
    return this.#controller.signal;
  }

  /** Why it has ended; null: it has not. */
  get fault(): EgressFault | null {
    return this.#fault;
  }

  throwIfOver(): void {
    if (this.#fault !== null) throw this.#fault;
  }

  /** Calls the listener at the end, or now if that has come. Returns a function that cancels this. */
  onOver(listener: () => void): () => void {
    if (this.#fault !== null) listener();
    else this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends the exchange with the fault after a time. Returns a function that cancels this. */
  endAfter(ms: number, fault: () => EgressFault): () => void {
    const timer = setTimeout(() => this.end(fault()), Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }

  /** The first fault wins. */
  end(fault: EgressFault): void {
    if (this.#fault !== null) return;
    this.#fault = fault;
    this.#controller?.abort(fault);
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }

  abort(): void {
    this.end(new EgressFault('ABORTED', 'the caller aborted the request'));
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
