import type { FastifyRequest } from 'fastify';
import { SMALL_BODY_BYTES } from '../../core/body-sizes.ts';
import type { Http } from '../door.ts';
import { BodyBudget, type BodyHold } from './body-budget.ts';
import { Inflater } from './inflate.ts';
import { receive } from './receive-body.ts';
import { bodyTooLarge, DEFAULT_JSON_LIMITS, type JsonLimits, parseSafely, refuse } from './safe-json.ts';
import { Uploads } from './uploads.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** For routes whose bodies have more values than others. */
    json?: JsonLimits;
    /** The route also needs the bytes of the body as they were sent, decompressed. */
    keepsBytes?: boolean;
    /** The body is a file of any media type. */
    takesFiles?: boolean;
  }
  interface FastifyInstance {
    /** For routes that read the bytes of a body themselves. */
    uploads?: Uploads;
  }
  interface FastifyRequest {
    /** Null unless the route keeps them. */
    bodyBytes: Buffer | null;
  }
}

export type BodyOptions = {
  /** The memory for all bodies. */
  readonly memoryBytes: number;
  /** A limit for every route, in addition to its own. */
  readonly largestBytes: number;
  readonly minUploadRate: number;
  readonly uploadGraceMs: number;
};

/**
 * Reads JSON bodies, plain or gzipped. The size of a body is bounded by its route, the memory of all bodies together by a budget, and the
 * time that a client takes by a rate.
 */
export function installBodies(http: Http, options: BodyOptions): void {
  const budget = new BodyBudget(options.memoryBytes);
  const uploads = new Uploads({ bytesPerSecond: options.minUploadRate, graceMs: options.uploadGraceMs });
  const inflater = new Inflater();
  http.decorate('uploads', uploads);
  http.addHook('onRoute', (route) => {
    route.bodyLimit = Math.min(route.bodyLimit ?? SMALL_BODY_BYTES, options.largestBytes);
  });
  http.addHook('onClose', async () => uploads.stop());
  http.decorateRequest('bodyBytes', null);
  http.removeAllContentTypeParsers();
  http.addContentTypeParser('application/json', (request, _payload, done) => {
    const { inFlight, identity, ip, routeOptions } = request;
    // The body of a request for a path that does not exist is not read.
    if (request.is404 || inFlight === null) return done(null, undefined);
    const hold = budget.open(identity?.orgId ?? ip);
    inFlight.keep(hold);
    const limit = routeOptions.bodyLimit;
    receive(request.raw, { limit, hold, uploads }, (error, bytes) => {
      if (bytes === null) return done(error);
      settle(() => read(request, bytes, { limit, hold, inflater }), done);
    });
  });
}

type Done = (error: Error | null, value?: unknown) => void;

/** Passes the result on. Without a promise it does so immediately. */
function settle(work: () => unknown, done: Done): void {
  let result: unknown;
  try {
    result = work();
  } catch (error) {
    done(error as Error);
    return;
  }
  if (result instanceof Promise) result.then((value) => done(null, value), done);
  else done(null, result);
}

/** The memory of a parsed value, on average. Only bodies with many values need more memory for them than for their text. */
const BYTES_PER_VALUE = 16;

type Reading = { limit: number; hold: BodyHold; inflater: Inflater };

function read(request: FastifyRequest, bytes: Buffer, reading: Reading): unknown | Promise<unknown> {
  const { json: limits = DEFAULT_JSON_LIMITS, keepsBytes = false } = request.routeOptions.config;
  const parse = (plain: Buffer): unknown | Promise<unknown> => {
    if (keepsBytes) request.bodyBytes = plain;
    return parseSafely(plain, limits, reserve);
  };
  const reserve = (values: number) => {
    if (values > DEFAULT_JSON_LIMITS.values) reading.hold.take(values * BYTES_PER_VALUE);
  };
  const encoding = request.headers['content-encoding']?.trim().toLowerCase();
  if (encoding === undefined || encoding === 'identity') return parse(bytes);
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw refuse('UNSUPPORTED_ENCODING', 'must be sent plain or with one gzip encoding');
  }
  return inflate(bytes, reading).then(parse);
}

async function inflate(bytes: Buffer, { limit, hold, inflater }: Reading): Promise<Buffer> {
  const inflated = await inflater.inflate(bytes, { limit, hold });
  if (inflated.kind === 'too large') throw bodyTooLarge(limit);
  if (inflated.kind === 'invalid') throw refuse('INVALID_ENCODING', 'is not a valid gzip');
  hold.give(bytes.length);
  return inflated.bytes;
}
