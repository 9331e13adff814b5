import { AppError } from '../../core/errors.ts';

const RETRY_AFTER_MS = 1_000;
/** A caller may hold twice as many bytes as are free. */
const SHARE_OF_FREE = 2;

/**
 * The bytes of all request bodies in memory. A caller may take more while the bytes that it holds are at most twice those that stay free.
 * A lone caller can use two thirds; the more callers hold, the less each may hold, and a caller with a small body always finds room.
 */
export class BodyBudget {
  readonly #total: number;
  readonly #held = new Map<string, number>();
  #used = 0;

  constructor(total: number) {
    this.#total = total;
  }

  get used(): number {
    return this.#used;
  }

  /** Starts to count the body of a request. The holder is an org, or an address without one. */
  open(holder: string): BodyHold {
    return new BodyHold(this, holder);
  }

  hasRoom(holder: string, bytes: number): boolean {
    const own = (this.#held.get(holder) ?? 0) + bytes;
    return own <= SHARE_OF_FREE * (this.#total - this.#used - bytes);
  }

  /** `bytes` is negative for bytes that are free again. */
  change(holder: string, bytes: number): void {
    const own = (this.#held.get(holder) ?? 0) + bytes;
    if (own === 0) this.#held.delete(holder);
    else this.#held.set(holder, own);
    this.#used += bytes;
  }
}

/** The bytes that one request holds until it is answered or its client has gone. */
export class BodyHold {
  readonly #budget: BodyBudget;
  readonly #holder: string;
  #bytes = 0;
  #isReleased = false;

  constructor(budget: BodyBudget, holder: string) {
    this.#budget = budget;
    this.#holder = holder;
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** Throws UNAVAILABLE if a body of the announced size has no room now. Nothing is reserved: clients send slowly or not at all. */
  expect(announced: number): void {
    if (!this.#budget.hasRoom(this.#holder, announced)) throw noRoom();
  }

  /** Throws UNAVAILABLE if the budget is used up. */
  take(bytes: number): void {
    if (this.#isReleased) return;
    if (!this.#budget.hasRoom(this.#holder, bytes)) throw noRoom();
    this.#add(bytes);
  }

  give(bytes: number): void {
    if (!this.#isReleased) this.#add(-bytes);
  }

  release(): void {
    this.give(this.#bytes);
    this.#isReleased = true;
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#budget.change(this.#holder, bytes);
  }
}

function noRoom(): AppError {
  const message =
    'The server holds too many bytes of request bodies. Retry after the time in the Retry-After header, or send smaller batches.';
  return new AppError('UNAVAILABLE', { message, retryAfterMs: RETRY_AFTER_MS });
}
