import assert from 'node:assert/strict';
import type { Readable } from 'node:stream';
import tls from 'node:tls';
import type { AddressPolicy } from '../core/address-policy.ts';
import { dictionary } from '../core/dictionary.ts';
import { HEADER_NAME, HEADER_VALUE, OWN_HEADERS } from '../core/request-headers.ts';
import { readTargetUrl, type UrlGuard, type UrlRefusal } from '../core/target-url.ts';
import type { Dialled } from './connection.ts';
import { Deadline } from './deadline.ts';
import { EgressFault, type FaultCode, faultFrom } from './fault.ts';
import { type Arrival, type EgressContext, type HopAhead, travel } from './hops.ts';
import { IdleLines } from './idle-lines.ts';
import type { ProxyAddress } from './proxy.ts';
import { createResolver, type Resolver, resolveTarget } from './resolver.ts';
import { type BodyParams, readBody, streamOut } from './response-body.ts';
import { isShort, readShort } from './short-body.ts';

export type EgressRequest = {
  readonly url: string;
  readonly method?: 'GET' | 'HEAD' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** For the whole exchange: DNS, connection, TLS, headers, body and all redirects. */
  readonly timeoutMs: number;
  /** For the response of each hop, and between two chunks of the body. Default: `timeoutMs`. */
  readonly idleTimeoutMs?: number;
  /** For callers that mainly need the status: how long to read the body. The part that arrived is returned. */
  readonly bodyWaitMs?: number;
  readonly maxBodyBytes: number;
  readonly overflow: 'truncate' | 'fail';
  /** How many redirects to follow. Default: 0, which returns a 3xx like any other response. */
  readonly redirects?: number;
  readonly proxy?: ProxyAddress | null;
  /** Whether an HTTP proxy that opens no tunnel may forward a request to a plain http URL with an IP address. Default: false. */
  readonly mayForward?: boolean;
  readonly signal?: AbortSignal;
  /** Whether to use and to keep connections that stay open after a response. Default: false. */
  readonly reuses?: boolean;
  /** Called before the first request and before each redirect. With false the request fails with HELD. */
  beforeHop?(hop: HopAhead): Promise<boolean>;
};

type EgressFacts = {
  readonly url: string;
  readonly address: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly hops: number;
  readonly durationMs: number;
};
type EgressFailure = {
  readonly kind: 'failed';
  readonly code: FaultCode;
  readonly message: string;
  /** A proxy works, but refused or could not reach this target. */
  readonly blamesTarget: boolean;
  readonly durationMs: number;
};
/** No connection to that URL was opened. */
type EgressRefused = {
  readonly kind: 'refused';
  readonly code: UrlRefusal['code'];
  readonly message: string;
  readonly url: string;
  readonly durationMs: number;
};
type EgressAnswer =
  | (EgressFacts & { readonly kind: 'answered'; readonly body: Uint8Array; readonly isTruncated: boolean })
  | EgressRefused
  | EgressFailure;
/** A stream fails with an EgressBodyError. */
type EgressOpened<Body> = (EgressFacts & { readonly kind: 'opened'; readonly body: Body }) | EgressRefused | EgressFailure;

export type EgressOptions = {
  readonly policy: AddressPolicy;
  readonly resolver?: Resolver;
  readonly connectTimeoutMs: number;
  readonly dnsTimeoutMs: number;
  readonly userAgent: string;
  /** A certificate authority to trust in addition to the usual ones. */
  readonly tls?: { readonly ca?: string };
  onDial?(dial: Dialled): void;
};

export type Egress = UrlGuard & {
  fetch(request: EgressRequest): Promise<EgressAnswer>;
  open(request: EgressRequest): Promise<EgressOpened<Readable>>;
  /** Like `open`, but a body that announces at most `wholeUpToBytes` is read before this returns. */
  openOrRead(request: EgressRequest & { readonly wholeUpToBytes: number }): Promise<EgressOpened<Readable | Uint8Array>>;
  /** Closes the idle connections. */
  close(): void;
};

const CHECK_TIMEOUT_MS = 2_000;

/** Errors of a URL, a peer or the DNS are returned as values, never thrown. */
export function createEgress(options: EgressOptions): Egress {
  const { policy, connectTimeoutMs, dnsTimeoutMs, userAgent } = options;
  const ca = options.tls?.ca;
  const context: EgressContext = {
    policy,
    userAgent,
    connectTimeoutMs,
    dnsTimeoutMs,
    resolver: options.resolver ?? createResolver({ dnsTimeoutMs }),
    secureContext: tls.createSecureContext({
      minVersion: 'TLSv1.2',
      ...(ca === undefined ? {} : { ca: [...defaultAuthorities(), ca] }),
    }),
    onDial: options.onDial?.bind(options),
    idle: new IdleLines(),
  };
  return {
    check: (url) => check(context, url),
    fetch: (request) => fetchWhole(context, request),
    open: (request) => openStream(context, request),
    openOrRead: (request) => openOrRead(context, request),
    close: () => context.idle.closeAll(),
  };
}

/** Accepts a name that cannot be resolved yet, because each request checks it again. */
async function check(context: EgressContext, url: string): Promise<UrlRefusal | null> {
  const { policy, resolver } = context;
  const reading = readTargetUrl(url, policy);
  if (!reading.ok) return reading.refusal;
  const dnsTimeoutMs = Math.min(CHECK_TIMEOUT_MS, context.dnsTimeoutMs);
  const lookup = { resolver, dnsTimeoutMs, signal: new AbortController().signal };
  try {
    const resolved = await resolveTarget({ target: reading.target, policy, lookup });
    return resolved.kind === 'refused' ? resolved.refusal : null;
  } catch (error) {
    if (error instanceof EgressFault) return null;
    throw error;
  }
}

/** Returns the response with its body, up to `maxBodyBytes`. */
function fetchWhole(context: EgressContext, request: EgressRequest): Promise<EgressAnswer> {
  return perform<EgressAnswer>(context, request, async ({ arrived, deadline, elapsed }) => {
    try {
      const body = await readBody(bodyParams(request, arrived, deadline), request.bodyWaitMs);
      return { kind: 'answered', ...factsOf(arrived, elapsed()), ...body };
    } finally {
      arrived.reply.close();
      deadline.release();
    }
  });
}

/** Returns the response when its headers have arrived. The body is a stream with the same limits. */
function openStream(context: EgressContext, request: EgressRequest): Promise<EgressOpened<Readable>> {
  return perform<EgressOpened<Readable>>(context, request, async ({ arrived, deadline, elapsed }) => {
    const body = streamOut(bodyParams(request, arrived, deadline), () => end(arrived, deadline));
    return { kind: 'opened', ...factsOf(arrived, elapsed()), body };
  });
}

function openOrRead(context: EgressContext, request: EgressRequest & { readonly wholeUpToBytes: number }) {
  return perform<EgressOpened<Readable | Uint8Array>>(context, request, async ({ arrived, deadline, elapsed }) => {
    const params = bodyParams(request, arrived, deadline);
    const onClose = () => end(arrived, deadline);
    const maxBytes = Math.min(request.wholeUpToBytes, request.maxBodyBytes);
    const body = isShort(params, maxBytes) ? await readShort(params, onClose) : streamOut(params, onClose);
    return { kind: 'opened', ...factsOf(arrived, elapsed()), body };
  });
}

function end({ reply }: Arrived, deadline: Deadline): void {
  reply.close();
  deadline.release();
}

type Arrived = Extract<Arrival, { kind: 'arrived' }>;
type Performance = { readonly arrived: Arrived; readonly deadline: Deadline; readonly elapsed: () => number };

/** `finish` must release the deadline. */
async function perform<T>(
  context: EgressContext,
  request: EgressRequest,
  finish: (performance: Performance) => Promise<T>,
): Promise<T | EgressRefused | EgressFailure> {
  const headers = requestHeaders(request.headers ?? {}, context.userAgent);
  const startedAt = performance.now();
  const elapsed = () => Math.round(performance.now() - startedAt);
  const deadline = new Deadline(request.timeoutMs, request.signal);
  try {
    const arrival = await travel(context, {
      url: request.url,
      request: { method: request.method ?? 'GET', headers, body: request.body ?? null },
      redirects: request.redirects ?? 0,
      proxy: request.proxy ?? null,
      mayForward: request.mayForward ?? false,
      deadline,
      reuses: request.reuses ?? false,
      answerTimeoutMs: request.idleTimeoutMs,
      beforeHop: request.beforeHop?.bind(request),
    });
    if (arrival.kind === 'arrived') return await finish({ arrived: arrival, deadline, elapsed });
    deadline.release();
    return { kind: 'refused', ...arrival.refusal, url: arrival.url, durationMs: elapsed() };
  } catch (error) {
    deadline.release();
    const { code, message, blamesTarget } = faultFrom(error, 'PROTOCOL');
    return { kind: 'failed', code, message, blamesTarget, durationMs: elapsed() };
  }
}

function bodyParams(request: EgressRequest, { reply, method }: Arrived, deadline: Deadline): BodyParams {
  const { maxBodyBytes, overflow, timeoutMs } = request;
  const announcesBody = method !== 'HEAD';
  return { reply, deadline, maxBodyBytes, overflow, announcesBody, idleTimeoutMs: request.idleTimeoutMs ?? timeoutMs };
}

function factsOf({ url, address, hops, reply }: Arrived, durationMs: number): EgressFacts {
  return { url, address, hops, durationMs, status: reply.status, headers: reply.headers };
}

/** Asks for no content encoding, so that the counted bytes are the bytes of the body. Throws on a bad header, which is a bug. */
function requestHeaders(given: Readonly<Record<string, string>>, userAgent: string): Record<string, string> {
  const headers = new Map([
    ['user-agent', userAgent],
    ['accept', '*/*'],
  ]);
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    assert(HEADER_NAME.test(key), `${JSON.stringify(name)} is not a valid header name`);
    assert(!OWN_HEADERS.has(key) && !key.startsWith('proxy-'), `the caller must not set the header ${key}`);
    assert(HEADER_VALUE.test(value), `the value of the header ${key} contains characters that are not allowed`);
    headers.set(key, value);
  }
  headers.set('accept-encoding', 'identity');
  return dictionary(headers);
}

/** Node before 22.15 cannot list the authorities that the machine or NODE_EXTRA_CA_CERTS adds. */
const defaultAuthorities = (): readonly string[] => tls.getCACertificates?.('default') ?? tls.rootCertificates;
