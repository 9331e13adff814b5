import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import { SharedUse } from '../../core/fair-share.ts';
import type { Http } from '../door.ts';
import { networkOf } from './network.ts';

declare module 'fastify' {
  interface FastifyRequest {
    inFlight: InFlight | null;
  }
  interface FastifyContextConfig {
    /** Exempt from the limit on requests in flight, so that a busy server still reports its health. */
    isProbe?: boolean;
  }
}

/** The counts of requests by what they wait for. Slow senders take no place of others. */
type Stages = { readonly checked: SharedUse; readonly received: SharedUse; readonly handled: SharedUse };
/** The memory of a body, which a request gives back when it ends. */
type Held = { release(): void };

/** A request that was not answered yet. */
class InFlight {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly #underWay: UnderWay;
  readonly place: number;
  receivedAtMs: number | null = null;
  #isOver = false;
  #body: Held | null = null;
  /** The count of its stage, and the org or the network that it counts for. */
  #counted: SharedUse | null = null;
  #holder = '';

  constructor(request: FastifyRequest, reply: FastifyReply, underWay: UnderWay, place: number) {
    this.request = request;
    this.reply = reply;
    this.#underWay = underWay;
    this.place = place;
  }

  /** The key is not known yet and must be read from the database. These functions return an error if there are too many such requests. */
  awaitKey(): AppError | undefined {
    return this.#moveTo(this.#underWay.stages.checked);
  }

  awaitBody(): AppError | undefined {
    return this.#moveTo(this.#underWay.stages.received);
  }

  handle(): AppError | undefined {
    return this.#moveTo(this.#underWay.stages.handled);
  }

  /** A request can be over before its key is known or its body is read, because its client has gone. */
  keep(body: Held): void {
    if (this.#isOver) body.release();
    else this.#body = body;
  }

  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#underWay.remove(this);
    this.#counted?.add(this.#holder, -1);
    this.#body?.release();
  }

  #moveTo(next: SharedUse): AppError | undefined {
    const { identity, ip, routeOptions } = this.request;
    if (this.#isOver || this.#counted === next || routeOptions.config.isProbe === true) return undefined;
    const holder = identity?.orgId ?? networkOf(ip);
    if (next.room(holder) < 1) return identity === null || next.isFull ? busy() : overShare(next, holder);
    this.#counted?.add(this.#holder, -1);
    this.#holder = holder;
    this.#counted = next;
    next.add(holder, 1);
    return undefined;
  }
}

type InFlightOptions = { maxInFlight: number; requestTimeoutMs: number; orgShare: number };

const RETRY_AFTER_MS = 1_000;
const LONGEST_SWEEP_MS = 250;
const CHECKED_PER_PLACE = 4;

/**
 * Limits the number of requests in flight, and how long each may take after its last byte was received. Requests are counted
 * separately while their key is read from the database, while their body arrives, and while they are handled. Each org has a share of
 * these counts, and so has each network as long as a request has no key. One timer checks all requests, because a timer for each would
 * cost more than most requests do.
 */
export function installInFlight(http: Http, { maxInFlight, requestTimeoutMs, orgShare }: InFlightOptions): void {
  const limit = { limit: maxInFlight, part: orgShare };
  const underWay = new UnderWay({
    // Such a request has no body in memory, and callers behind one proxy share an address.
    checked: new SharedUse({ ...limit, limit: CHECKED_PER_PLACE * maxInFlight }),
    received: new SharedUse(limit),
    handled: new SharedUse(limit),
  });
  http.decorateRequest('inFlight', null);
  http.addHook('onRequest', (request, reply, done) => {
    const entry = underWay.enter(request, reply);
    request.inFlight = entry;
    reply.raw.on('close', () => entry.leave());
    done();
  });
  // The key has been checked, and the body is read next. After that comes the validation.
  http.addHook('preParsing', (request, _reply, _payload, done) => done(hasBody(request) ? request.inFlight?.awaitBody() : undefined));
  http.addHook('preValidation', (request, _reply, done) => done(request.inFlight?.handle()));
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
  readonly stages: Stages;
  readonly #places: (InFlight | null)[] = [];
  readonly #free: number[] = [];

  constructor(stages: Stages) {
    this.stages = stages;
  }

  enter(request: FastifyRequest, reply: FastifyReply): InFlight {
    const place = this.#free.pop() ?? this.#places.length;
    const entry = new InFlight(request, reply, this, place);
    this.#places[place] = entry;
    return entry;
  }

  remove({ place }: InFlight): void {
    this.#places[place] = null;
    this.#free.push(place);
  }

  all(): readonly (InFlight | null)[] {
    return this.#places;
  }
}

function sweep(underWay: UnderWay, requestTimeoutMs: number): void {
  const nowMs = performance.now();
  for (const entry of underWay.all()) {
    if (entry === null) continue;
    // The response was sent, or a stream took it over. From here on the limits of the socket apply.
    if (entry.reply.sent) entry.leave();
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
