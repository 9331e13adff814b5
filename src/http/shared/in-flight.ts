import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Http } from '../door.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Exempt from the limit on requests in flight, so that a busy server still reports its health. */
    isProbe?: boolean;
  }
}

type Entry = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly place: number;
  receivedAtMs: number | null;
};

type InFlightOptions = { maxInFlight: number; requestTimeoutMs: number };

const RETRY_AFTER_MS = 1_000;
const LONGEST_SWEEP_MS = 250;

/**
 * Limits the number of requests in flight, and how long each may take after its last byte was received. One timer checks all of
 * them, because a timer for each would cost more than most requests do.
 */
export function installInFlight(http: Http, { maxInFlight, requestTimeoutMs }: InFlightOptions): void {
  const underWay = new UnderWay();
  http.addHook('onRequest', (request, reply, done) => {
    if (underWay.size >= maxInFlight) return done(request.routeOptions.config.isProbe === true ? undefined : busy());
    const entry = underWay.enter(request, reply);
    reply.raw.on('close', () => underWay.leave(entry));
    done();
  });
  const sweepEveryMs = Math.min(LONGEST_SWEEP_MS, requestTimeoutMs / 4);
  const timer = setInterval(() => sweep(underWay, requestTimeoutMs), sweepEveryMs);
  timer.unref();
  http.addHook('onClose', async () => clearInterval(timer));
}

/**
 * A list of requests with reusable slots. A Map or Set replaces its internal table as it grows, and the old table keeps finished
 * requests alive until a full garbage collection. That cost 7 of 55 us a request.
 */
class UnderWay {
  readonly #places: (Entry | null)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#places.length - this.#free.length;
  }

  enter(request: FastifyRequest, reply: FastifyReply): Entry {
    const place = this.#free.pop() ?? this.#places.length;
    const entry = { request, reply, place, receivedAtMs: null };
    this.#places[place] = entry;
    return entry;
  }

  leave(entry: Entry): void {
    if (this.#places[entry.place] !== entry) return;
    this.#places[entry.place] = null;
    this.#free.push(entry.place);
  }

  all(): readonly (Entry | null)[] {
    return this.#places;
  }
}

function sweep(underWay: UnderWay, requestTimeoutMs: number): void {
  const nowMs = performance.now();
  for (const entry of underWay.all()) {
    if (entry === null) continue;
    // The response was sent, or a stream took it over. From here on the limits of the socket apply.
    if (entry.reply.sent) underWay.leave(entry);
    else if (!entry.request.raw.complete) continue;
    else if (entry.receivedAtMs === null) entry.receivedAtMs = nowMs;
    else if (nowMs - entry.receivedAtMs >= requestTimeoutMs) entry.reply.send(late());
  }
}

const busy = (): AppError =>
  new AppError('UNAVAILABLE', {
    message: 'Too many requests are in flight. Retry after the time in the Retry-After header.',
    retryAfterMs: RETRY_AFTER_MS,
  });

function late(): AppError {
  const message = 'The request took too long and may still take effect. Check its result before you send it again.';
  return new AppError('UNAVAILABLE', {
    message,
    retryAfterMs: RETRY_AFTER_MS,
    details: [{ field: 'request', code: 'REQUEST_TIMEOUT', message }],
  });
}
