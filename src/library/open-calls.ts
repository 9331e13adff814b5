import { AppError, isAppError } from '../core/errors.ts';

/** How long close() waits for calls under way. A statement takes at most 10 s. */
export const CLOSE_PATIENCE_MS = 10_000;

type UnderWay = { reject(error: AppError): void };

const closed = (): AppError => new AppError('CLOSED');

/** The call was sent to the database and has not ended. */
const cutOff = (): AppError =>
  new AppError('CLOSED', {
    message: 'The Millrace was closed while this call was under way. The call may have taken effect.',
    mayHaveHappened: true,
  });

/** After the close, a call may meet connections that are being closed. */
function causedByClose(error: unknown): unknown {
  if (isAppError(error, 'SHUTTING_DOWN')) return closed();
  if (!isAppError(error, 'UNAVAILABLE')) return error;
  return error.mayHaveHappened ? cutOff() : closed();
}

/**
 * Counts the calls of one instance, so that none meets a database that is already closed. Once the instance is closed, a call is refused
 * with CLOSED.
 */
export class OpenCalls {
  readonly #underWay = new Set<UnderWay>();
  readonly #stop = new AbortController();
  #isClosing: (() => boolean) | null = null;
  #onIdle: (() => void) | null = null;

  /** Aborted when the instance is closed. Long calls stop at their next step. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborted by the caller's signal or by the close. */
  signalWith(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.signal : AbortSignal.any([signal, this.signal]);
  }

  /** Throws CLOSED after the close. */
  check(): void {
    if (this.#isShut) throw closed();
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isShut) return Promise.reject(closed());
    return new Promise<T>((resolve, reject) => {
      const call = { reject };
      this.#underWay.add(call);
      work().then(
        (value) => {
          this.#end(call);
          resolve(value);
        },
        (error) => {
          this.#end(call);
          reject(this.#isShut ? causedByClose(error) : error);
        },
      );
    });
  }

  /** Runs each step of an iteration as a call. */
  async *iterate<T>(items: AsyncGenerator<T, void>): AsyncGenerator<T, void> {
    try {
      for (;;) {
        const { value, done } = await this.run(() => items.next());
        if (done) return;
        yield value;
      }
    } finally {
      await items.return();
    }
  }

  /** From now on calls are accepted only while handlers run, because handlers may need them to finish. */
  beginClose(hasHandlers: () => boolean): void {
    this.#isClosing = () => !hasHandlers();
  }

  /** From now on no call is accepted. */
  shut(): void {
    this.#isClosing = () => true;
    this.#stop.abort(closed());
  }

  /** Waits for the calls under way. Those that take longer end with CLOSED. */
  async ended(patienceMs: number): Promise<void> {
    if (this.#underWay.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    const timer = setTimeout(() => {
      for (const call of this.#underWay) call.reject(cutOff());
      resolve();
    }, patienceMs);
    await promise;
    clearTimeout(timer);
  }

  get #isShut(): boolean {
    return this.#isClosing?.() ?? false;
  }

  #end(call: UnderWay): void {
    this.#underWay.delete(call);
    if (this.#underWay.size === 0) this.#onIdle?.();
  }
}
