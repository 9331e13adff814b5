import { EgressFault } from './fault.ts';

/** A timer that is set for longer fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One end for a whole exchange: its time is over, its caller gave up, or a part of it failed the rest. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;
  readonly #onCallerAbort = () => this.end(new EgressFault('ABORTED', 'the caller gave up'));

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    this.#timer = setTimeout(
      () => this.end(new EgressFault('TIMEOUT', `not finished within ${timeoutMs} ms`)),
      Math.min(timeoutMs, LONGEST_TIMER_MS),
    );
    this.#caller = caller;
    if (caller?.aborted) this.#onCallerAbort();
    else caller?.addEventListener('abort', this.#onCallerAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the exchange with the fault unless that is called off in time. */
  endAfter(ms: number, fault: EgressFault): () => void {
    const timer = setTimeout(() => this.end(fault), Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }

  /** The first fault wins. */
  end(fault: EgressFault): void {
    this.#controller.abort(fault);
  }

  /** Nothing is left to end. */
  release(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#onCallerAbort);
  }
}

type Bounds = { readonly ms: number; readonly signal: AbortSignal; readonly fault: EgressFault };

/**
 * Runs one phase of an exchange inside its own bound and the exchange's. Work that ignores its signal is left behind, so
 * whatever holds a resource must give it back when the signal fires.
 */
export async function within<T>(bounds: Bounds, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  bounds.signal.throwIfAborted();
  const phase = new AbortController();
  const onAbort = () => phase.abort(bounds.signal.reason);
  bounds.signal.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(() => phase.abort(bounds.fault), bounds.ms);
  const { promise: ended, reject } = Promise.withResolvers<never>();
  phase.signal.addEventListener('abort', () => reject(phase.signal.reason), { once: true });
  try {
    return await Promise.race([work(phase.signal), ended]);
  } catch (error) {
    throw phase.signal.aborted ? phase.signal.reason : error;
  } finally {
    clearTimeout(timer);
    bounds.signal.removeEventListener('abort', onAbort);
  }
}
