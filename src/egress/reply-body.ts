import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';

/** How much is kept before a reader attaches. After that, the connection is not read any further. */
const MOST_HELD_BYTES = 65_536;

export type BodyReader = {
  onPiece(piece: Buffer): void;
  onEnd(): void;
  onError(error: Error): void;
};

/**
 * The body of a response. A short one is read with three callbacks, because a stream costs a small file as much as the rest of its response.
 * There is one reader, or one stream.
 */
export class ReplyBody {
  readonly #controller: Dispatcher.DispatchController;
  #reader: BodyReader | null = null;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #hasEnded = false;
  #error: Error | null = null;
  #isRead = false;

  constructor(controller: Dispatcher.DispatchController) {
    this.#controller = controller;
  }

  /** Whether the reader has everything. */
  get isRead(): boolean {
    return this.#isRead;
  }

  push(piece: Buffer): void {
    if (this.#reader !== null) {
      this.#reader.onPiece(piece);
      return;
    }
    this.#held.push(piece);
    this.#heldBytes += piece.length;
    if (this.#heldBytes >= MOST_HELD_BYTES) this.#controller.pause();
  }

  end(): void {
    this.#hasEnded = true;
    if (this.#reader === null) return;
    this.#isRead = true;
    this.#reader.onEnd();
  }

  fail(error: Error): void {
    this.#error = error;
    this.#reader?.onError(error);
  }

  read(reader: BodyReader): void {
    this.#reader = reader;
    for (const piece of this.#held) reader.onPiece(piece);
    this.#held = [];
    if (this.#error !== null) reader.onError(this.#error);
    else if (this.#hasEnded) this.end();
    else this.#controller.resume();
  }

  /** A stream that reads the connection only as fast as it is read itself. To destroy it early does not end the exchange. */
  stream(): Readable {
    const controller = this.#controller;
    const stream = new Readable({ read: () => controller.resume() });
    // Without a listener, an error would end the process.
    stream.on('error', () => undefined);
    this.read({
      onPiece: (piece) => {
        if (!stream.push(piece)) controller.pause();
      },
      onEnd: () => stream.push(null),
      onError: (error) => stream.destroy(error),
    });
    return stream;
  }
}
