import cors from '@fastify/cors';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { batchBytes, DEFAULT_BODY_MEMORY, leastBodyMemory } from '../core/body-sizes.ts';
import { DEFAULT_ORG_SHARE } from '../core/fair-share.ts';
import type { Engine } from '../engine/engine.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Door, Http } from './door.ts';
import { installAuthentication } from './shared/authentication.ts';
import { type BodyOptions, installBodies } from './shared/bodies.ts';
import { answerConnectionError } from './shared/connection-errors.ts';
import { setConstantHeaders } from './shared/constant-headers.ts';
import { doorOf, type FaultObserver, installErrors, sendError, toAppError } from './shared/errors.ts';
import type { Authenticator, RateLimiter } from './shared/identity.ts';
import { installInFlight } from './shared/in-flight.ts';
import { LAZY_COMPILERS } from './shared/lazy-compilers.ts';
import { installOpenApi } from './shared/openapi.ts';
import { installQueryValues } from './shared/query-values.ts';
import { requestIdOf } from './shared/request-id.ts';
import { installRequestLog } from './shared/request-log.ts';
import { originCheck } from './shared/request-origin.ts';
import { installRequestSpans } from './shared/request-spans.ts';
import { installApiPage } from './system/api-page.ts';
import { installErrorPages } from './system/error-pages.ts';
import { installMetrics } from './system/metrics.ts';
import { installSystem } from './system/routes.ts';

export type ServerOptions = {
  engine: Engine;
  doors: readonly Door[];
  authenticator: Authenticator;
  limiter: RateLimiter;
  version: string;
  /** How long a request may take after its last byte was received. */
  requestTimeoutMs?: number;
  maxInFlight?: number;
  /** The part of `maxInFlight` that one org, or one address without a key, may use while it is alone. */
  orgShare?: number;
  /** A limit for every body. Most routes have a smaller one. */
  bodyLimitBytes?: number | null;
  /** The memory for the bodies of all requests in flight. */
  bodyMemoryBytes?: number | null;
  /** The average rate, in bytes per second, at which a body must arrive after the grace period. */
  minUploadRate?: number;
  uploadGraceMs?: number;
  /** How many proxies there are in front of the server, or their addresses and ranges. */
  trustProxy?: false | number | readonly string[];
  /** The names by which clients reach the server, in addition to `localhost` and every IP address; "*" allows all. */
  allowedHosts?: readonly string[];
  /** Web pages of these origins may call the API. */
  corsOrigins?: readonly string[];
  /** How long a client may take to send the headers, and the whole of a request. */
  headersTimeoutMs?: number;
  receiveTimeoutMs?: number;
  /** Enables /metrics. */
  telemetry?: Telemetry;
  /** How long /metrics shows what it read from the database. */
  metricsFreshMs?: number;
  onFault?: FaultObserver;
};

const HANDLER_TIMEOUT_MS = 15_000;
const HEADERS_TIMEOUT_MS = 10_000;
const RECEIVE_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_MS = 72_000;
const MAX_IN_FLIGHT = 1_000;
const MAX_HEADER_BYTES = 16_384;
/** A schedule's key may have 200 characters, each of which takes up to 12 in a path. */
const MAX_PARAM_LENGTH = 2_400;
const MIN_UPLOAD_RATE = 8_192;
const UPLOAD_GRACE_MS = 5_000;

/** Builds the HTTP server: limits, authentication and errors for all doors, then the doors. It does not listen yet. */
export async function buildServer(options: ServerOptions): Promise<Http> {
  const { doors, engine, requestTimeoutMs = HANDLER_TIMEOUT_MS, maxInFlight = MAX_IN_FLIGHT } = options;
  const http = bareServer(options);
  http.decorateRequest('jobId', null);
  http.decorateRequest('orgId', null);
  http.decorateRequest('problem', null);
  if (options.telemetry !== undefined) installRequestLog(http, options.telemetry);
  installOriginCheck(http, options);
  installRequestSpans(http, options.telemetry?.tracer);
  // Before the first route, because a route takes the error handler that there is.
  installErrors(http, doors, options.onFault);
  await installCors(http, options.corsOrigins ?? []);
  installInFlight(http, { maxInFlight, requestTimeoutMs, orgShare: options.orgShare ?? DEFAULT_ORG_SHARE });
  installBodies(http, bodyOptions(options));
  installQueryValues(http);
  installQuietContinue(http, doors);
  installAuthentication(http, options);
  await installOpenApi(http, options);
  installSystem(http, options);
  if (options.telemetry !== undefined) installMetrics(http, { engine, telemetry: options.telemetry, freshMs: options.metricsFreshMs });
  installApiPage(http);
  installErrorPages(http);
  for (const door of doors) {
    await http.register(async (scope) => door.register(scope as unknown as Http, engine), { prefix: door.prefix });
  }
  return http;
}

function bareServer(options: ServerOptions): Http {
  const { doors, headersTimeoutMs = HEADERS_TIMEOUT_MS, receiveTimeoutMs = RECEIVE_TIMEOUT_MS } = options;
  return Fastify({
    logger: false,
    connectionTimeout: receiveTimeoutMs,
    requestTimeout: receiveTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    trustProxy: trusted(options.trustProxy ?? false),
    // While the server closes, it still responds on open connections and asks the client to reconnect.
    return503OnClosing: false,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: headersTimeoutMs,
      // Node checks the timeouts above at this interval.
      connectionsCheckingInterval: Math.min(1_000, headersTimeoutMs),
    },
    genReqId: requestIdOf,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
    clientErrorHandler: answerConnectionError,
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      sendError({ error: toAppError(error, request), request, reply, doors });
    },
    schemaController: { compilersFactory: LAZY_COMPILERS },
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, allErrors: true, useDefaults: true, verbose: true },
    },
  }) as unknown as Http;
}

/** With a number Fastify trusts no proxy. The function trusts as many as there are, counted from this server. */
function trusted(proxies: false | number | readonly string[]) {
  return typeof proxies === 'number' ? (_address: string, hop: number) => hop < proxies : proxies && [...proxies];
}

/** One hook before all others: the headers of every response, and the refusal of requests that other sites cause. */
function installOriginCheck(http: Http, { trustProxy = false, allowedHosts = [], corsOrigins = [] }: ServerOptions): void {
  const check = originCheck({ allowedHosts, corsOrigins });
  http.addHook('onRequest', (request, reply, done) => {
    setConstantHeaders(reply, request.id);
    const refusal = check(request.raw, trustProxy === false ? undefined : request.host);
    if (refusal === null) done();
    else done(refusal);
  });
}

function bodyOptions({ engine, bodyLimitBytes = null, bodyMemoryBytes, minUploadRate, uploadGraceMs }: ServerOptions): BodyOptions {
  const payloadBytes = engine.limits.maxPayloadBytes;
  return {
    memoryBytes: bodyMemoryBytes ?? Math.max(DEFAULT_BODY_MEMORY, leastBodyMemory({ payloadBytes, bodyBytes: bodyLimitBytes })),
    largestBytes: bodyLimitBytes ?? batchBytes(payloadBytes),
    minUploadRate: minUploadRate ?? MIN_UPLOAD_RATE,
    uploadGraceMs: uploadGraceMs ?? UPLOAD_GRACE_MS,
  };
}

/** Lets web pages of the configured origins call the API. No origin is allowed by default. */
async function installCors(http: Http, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return;
  const allowed = new Set(origins);
  await http.register(cors, {
    // With a list the plugin would return 204 to preflight requests of every origin.
    origin: (origin, decide) => decide(null, origin !== undefined && allowed.has(origin) ? origin : false),
    methods: ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', 'content-encoding', 'last-event-id', 'x-request-id'],
    exposedHeaders: ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
    maxAge: 600,
    strictPreflight: false,
  });
}

/**
 * Sends "100 Continue" to a client that waits for it, except at doors that return final statuses only. There the client sends
 * the body after its own timeout.
 */
function installQuietContinue(http: Http, doors: readonly Door[]): void {
  http.server.on('checkContinue', (request, response) => {
    if (doorOf(request.url ?? '', doors)?.isFinalOnly !== true) response.writeContinue();
    http.server.emit('request', request, response);
  });
}
