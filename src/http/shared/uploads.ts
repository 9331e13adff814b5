import type { IncomingMessage } from 'node:http';
import { answerConnectionError } from './connection-errors.ts';

const SWEEP_MS = 500;

export type UploadRate = {
  /** The average that a client must reach. */
  readonly bytesPerSecond: number;
  /** How long a client may be slower. Small bodies arrive in this time over any connection. */
  readonly graceMs: number;
};

/** A body that is being received. Fields for the list are in the body itself, because a Set would keep finished ones alive. */
export class Upload {
  readonly request: IncomingMessage;
  readonly startedAtMs = performance.now();
  received = 0;
  previous: Upload | null = null;
  next: Upload | null = null;

  constructor(request: IncomingMessage) {
    this.request = request;
  }
}

/** The bodies that are being received, oldest first. It ends the connections of those that come too slowly. */
export class Uploads {
  readonly #rate: UploadRate;
  readonly #timer: NodeJS.Timeout;
  #first: Upload | null = null;
  #last: Upload | null = null;

  constructor(rate: UploadRate) {
    this.#rate = rate;
    this.#timer = setInterval(() => this.#sweep(), Math.min(SWEEP_MS, rate.graceMs));
    this.#timer.unref();
  }

  begin(request: IncomingMessage): Upload {
    const upload = new Upload(request);
    upload.previous = this.#last;
    if (this.#last === null) this.#first = upload;
    else this.#last.next = upload;
    this.#last = upload;
    return upload;
  }

  end(upload: Upload): void {
    const { previous, next } = upload;
    if (previous === null) this.#first = next;
    else previous.next = next;
    if (next === null) this.#last = previous;
    else next.previous = previous;
    upload.previous = null;
    upload.next = null;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const nowMs = performance.now();
    const { bytesPerSecond, graceMs } = this.#rate;
    for (let upload = this.#first; upload !== null; ) {
      const lastingMs = nowMs - upload.startedAtMs;
      if (lastingMs < graceMs) return;
      const { next, request, received } = upload;
      if (received < (bytesPerSecond * lastingMs) / 1_000) answerConnectionError(new SlowUpload(), request.socket);
      upload = next;
    }
  }
}

/** The client gets the same response as for a request that does not arrive in time. */
class SlowUpload extends Error {
  readonly code = 'ERR_HTTP_REQUEST_TIMEOUT';
  readonly isSlow = true;
}
