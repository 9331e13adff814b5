import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Http } from '../door.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered even when too much is under way: whoever asks wants to know just that. */
    isProbe?: boolean;
  }
}

type Entry = { readonly request: FastifyRequest; readonly reply: FastifyReply; receivedAtMs: number | null };

type InFlightOptions = { maxInFlight: number; requestTimeoutMs: number };

const RETRY_AFTER_MS = 1_000;
const LONGEST_SWEEP_MS = 250;

/**
 * Bounds how many requests are under way and how long each may take from the moment it has been received whole. One timer
 * looks at all of them: a timer for each would cost more than most requests do.
 */
export function installInFlight(http: Http, { maxInFlight, requestTimeoutMs }: InFlightOptions): void {
  const entries = new Map<ServerResponse, Entry>();
  const forget = function (this: ServerResponse) {
    entries.delete(this);
  };
  http.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.config.isProbe === true) return done();
    if (entries.size >= maxInFlight) return done(busy());
    entries.set(reply.raw, { request, reply, receivedAtMs: null });
    reply.raw.once('close', forget);
    done();
  });
  const timer = setInterval(() => sweep(entries, requestTimeoutMs), Math.min(LONGEST_SWEEP_MS, requestTimeoutMs / 4));
  timer.unref();
  http.addHook('onClose', async () => clearInterval(timer));
}

function sweep(entries: Map<ServerResponse, Entry>, requestTimeoutMs: number): void {
  const nowMs = performance.now();
  for (const [raw, entry] of entries) {
    // Answered, or handed to whoever streams: from here on the socket's own bounds hold.
    if (entry.reply.sent) entries.delete(raw);
    else if (!entry.request.raw.complete) continue;
    else if (entry.receivedAtMs === null) entry.receivedAtMs = nowMs;
    else if (nowMs - entry.receivedAtMs >= requestTimeoutMs) entry.reply.send(late());
  }
}

const busy = (): AppError =>
  new AppError('UNAVAILABLE', { message: 'Too many requests are under way.', retryAfterMs: RETRY_AFTER_MS });

function late(): AppError {
  const message = 'The request took too long. What it asked for may still happen.';
  return new AppError('UNAVAILABLE', {
    ...{ message, retryAfterMs: RETRY_AFTER_MS },
    details: [{ field: 'request', code: 'REQUEST_TIMEOUT', message }],
  });
}
