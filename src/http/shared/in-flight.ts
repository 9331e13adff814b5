import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import { SharedUse } from '../../core/fair-share.ts';
import type { Http } from '../door.ts';
import { networkOf } from './network.ts';

declare module 'fastify' {
  interface FastifyRequest {
    inFlight: Entry | null;
  }
  interface FastifyContextConfig {
    /** Exempt from the limit on requests in flight, so that a busy server still reports its health. */
    isProbe?: boolean;
  }
}

type Entry = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly place: number;
  /** The address that the request came from, or its org once its key is known. Null for a probe, which is not counted. */
  holder: string | null;
  /** The count of its stage. */
  counted: SharedUse;
  receivedAtMs: number | null;
};

type InFlightOptions = { maxInFlight: number; requestTimeoutMs: number; orgShare: number };

const RETRY_AFTER_MS = 1_000;
const LONGEST_SWEEP_MS = 250;
const ARRIVING_PER_PLACE = 4;

/**
 * Limits the number of requests in flight, and how long each may take after its last byte was received. Requests are counted
 * separately while their key is checked, while their body arrives, and while they are handled, so that slow senders take no place of
 * others. Each org has a share of these counts, and so has each address as long as a request has no key. One timer checks all requests,
 * because a timer for each would cost more than most requests do.
 */
export function installInFlight(http: Http, { maxInFlight, requestTimeoutMs, orgShare }: InFlightOptions): void {
  const limit = { limit: maxInFlight, part: orgShare };
  // A request whose key is checked has no body in memory, and callers behind one proxy share an address.
  const arriving = new SharedUse({ ...limit, limit: ARRIVING_PER_PLACE * maxInFlight });
  const [receiving, working] = [new SharedUse(limit), new SharedUse(limit)];
  const underWay = new UnderWay();
  const refusalOf = (counted: SharedUse, holder: string, request: FastifyRequest): AppError =>
    counted.all >= maxInFlight || request.identity === null ? busy() : overShare(counted, holder);
  http.decorateRequest('inFlight', null);
  http.addHook('onRequest', (request, reply, done) => {
    const holder = request.routeOptions.config.isProbe === true ? null : networkOf(request.ip);
    if (holder !== null && arriving.room(holder) < 1) return done(busy());
    const entry = underWay.enter({ request, reply, holder, counted: arriving });
    request.inFlight = entry;
    reply.raw.on('close', () => underWay.leave(entry));
    done();
  });
  const moveTo = (counted: SharedUse, request: FastifyRequest): AppError | undefined => {
    const entry = request.inFlight;
    if (entry === null || entry.holder === null || entry.counted === counted) return undefined;
    const holder = request.identity?.orgId ?? entry.holder;
    if (counted.room(holder) < 1) return refusalOf(counted, holder, request);
    entry.counted.add(entry.holder, -1);
    entry.holder = holder;
    entry.counted = counted;
    counted.add(holder, 1);
    return undefined;
  };
  // The key has been checked, and the body is read next. After that comes the validation.
  http.addHook('preParsing', (request, _reply, _payload, done) => done(hasBody(request) ? moveTo(receiving, request) : undefined));
  http.addHook('preValidation', (request, _reply, done) => done(moveTo(working, request)));
  const sweepEveryMs = Math.min(LONGEST_SWEEP_MS, requestTimeoutMs / 4);
  const timer = setInterval(() => sweep(underWay, requestTimeoutMs), sweepEveryMs);
  timer.unref();
  http.addHook('onClose', async () => clearInterval(timer));
}

const hasBody = ({ headers }: FastifyRequest): boolean =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;

/**
 * A list of requests with reusable slots. A Map or Set replaces its internal table as it grows, and the old table keeps finished
 * requests alive until a full garbage collection. That cost 7 of 55 us a request.
 */
class UnderWay {
  readonly #places: (Entry | null)[] = [];
  readonly #free: number[] = [];

  enter(coming: Pick<Entry, 'request' | 'reply' | 'holder' | 'counted'>): Entry {
    const place = this.#free.pop() ?? this.#places.length;
    const { request, reply, holder, counted } = coming;
    const entry: Entry = { request, reply, place, holder, counted, receivedAtMs: null };
    this.#places[place] = entry;
    if (holder !== null) counted.add(holder, 1);
    return entry;
  }

  leave(entry: Entry): void {
    if (this.#places[entry.place] !== entry) return;
    this.#places[entry.place] = null;
    this.#free.push(entry.place);
    if (entry.holder !== null) entry.counted.add(entry.holder, -1);
    entry.holder = null;
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

function overShare(counted: SharedUse, orgId: string): AppError {
  const [current, maximum] = [counted.own(orgId), counted.share(orgId)];
  return new AppError('QUOTA_EXCEEDED', {
    message: `The org has ${current} requests in flight, and its share of the server is ${maximum} (server.max_in_flight, limits.org_share). Send fewer at the same time.`,
    quota: { limit: 'org_requests_in_flight', current, maximum, retryAfterMs: RETRY_AFTER_MS },
  });
}

function late(): AppError {
  const message = 'The request took too long and may still take effect. Check its result before you send it again.';
  return new AppError('UNAVAILABLE', {
    message,
    retryAfterMs: RETRY_AFTER_MS,
    details: [{ field: 'request', code: 'REQUEST_TIMEOUT', message }],
  });
}
