import { finished } from 'node:stream/promises';
import type { SecureContext } from 'node:tls';
import type { AddressPolicy } from '../core/address-policy.ts';
import { readTargetUrl, type TargetUrl, type UrlRefusal } from '../core/target-url.ts';
import { connectTo, type Dialled } from './connection.ts';
import { type Deadline, within } from './deadline.ts';
import { closeLine, exchange, type HopRequest, type Line, openLine, type Reply } from './exchange.ts';
import { EgressFault } from './fault.ts';
import { type IdleLines, lineKey } from './idle-lines.ts';
import type { ProxyAddress } from './proxy.ts';
import { type Lookup, type Resolver, resolveProxy, resolveTarget } from './resolver.ts';

/** The settings that all exchanges share. */
export type EgressContext = {
  readonly policy: AddressPolicy;
  readonly resolver: Resolver;
  readonly connectTimeoutMs: number;
  readonly dnsTimeoutMs: number;
  readonly secureContext: SecureContext;
  readonly userAgent: string;
  readonly onDial: ((dialled: Dialled) => void) | undefined;
  readonly idle: IdleLines;
};

export type Journey = {
  readonly url: string;
  readonly request: HopRequest;
  readonly redirects: number;
  readonly proxy: ProxyAddress | null;
  readonly mayForward: boolean;
  readonly deadline: Deadline;
  /** Whether to use and to keep idle connections. */
  readonly reuses: boolean;
  /** How long the response of a hop may take. */
  readonly answerTimeoutMs: number | undefined;
  readonly beforeHop: ((hop: HopAhead) => Promise<boolean>) | undefined;
};

/** The URL of the next request passed every check that needs no DNS. */
export type HopAhead = {
  readonly url: string;
  /** With the port, unless it is the default of the scheme. */
  readonly host: string;
  /** The status of the redirect that leads there. Null for the first request. */
  readonly redirect: number | null;
  /** Ends the whole exchange. */
  abort(): void;
};

export type Arrival =
  | {
      readonly kind: 'arrived';
      readonly url: string;
      readonly address: string;
      readonly hops: number;
      readonly reply: Reply;
      readonly method: HopRequest['method'];
    }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal; readonly url: string };

/** Follows redirects. Every hop is parsed, resolved and checked like the first. */
export async function travel(context: EgressContext, journey: Journey): Promise<Arrival> {
  let { url, request } = journey;
  let status: number | null = null;
  for (let hops = 0; ; hops++) {
    const hop = await hopTo(context, { ...journey, url, request, status });
    if (hop.kind === 'refused') return { ...hop, url };
    const { target, reply, address } = hop;
    const redirect = journey.redirects === 0 ? ({ kind: 'none' } as const) : redirectOf({ from: target.url, request, reply });
    if (redirect.kind === 'none') {
      return { kind: 'arrived', url: target.url.href, address, hops, reply, method: request.method };
    }
    if (journey.reuses) await readRest(reply);
    reply.close();
    if (redirect.kind === 'refused') return redirect;
    if (hops === journey.redirects) {
      throw new EgressFault('TOO_MANY_REDIRECTS', `the response redirected more than ${journey.redirects} times`);
    }
    ({ url, request } = redirect);
    status = reply.status;
  }
}

const MAX_REST_BYTES = 8_192;
const REST_MS = 250;

/** Reads the short body of a redirect, so that its connection can be used again. */
async function readRest({ headers, body }: Reply): Promise<void> {
  const length = Number(headers['content-length'] ?? Number.NaN);
  if (!(length <= MAX_REST_BYTES)) return;
  const read = body.stream().resume();
  await within({ ms: REST_MS, signal: new AbortController().signal, fault: () => new EgressFault('IDLE', 'the rest took too long') }, () =>
    finished(read),
  ).catch(() => undefined);
}

type Hop =
  | { readonly kind: 'answered'; readonly target: TargetUrl; readonly address: string; readonly reply: Reply }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal };

type HopJourney = Journey & { readonly status: number | null };

async function hopTo(context: EgressContext, journey: HopJourney): Promise<Hop> {
  const reading = readTargetUrl(journey.url, context.policy);
  if (!reading.ok) return { kind: 'refused', refusal: reading.refusal };
  const { target } = reading;
  const { href, host } = target.url;
  const mayGo = (await journey.beforeHop?.({ url: href, host, redirect: journey.status, abort: () => journey.deadline.abort() })) ?? true;
  if (!mayGo) throw new EgressFault('HELD', 'the caller did not allow the request');
  journey.deadline.throwIfOver();
  return (await sendOnIdle(context, journey, target)) ?? sendOnNew(context, journey, target);
}

/** Returns null if there is no idle connection, or if the server closed it before it sent a byte of the response. */
async function sendOnIdle({ idle }: EgressContext, journey: HopJourney, target: TargetUrl): Promise<Hop | null> {
  if (!journey.reuses || journey.request.method === 'POST') return null;
  const key = lineKey(target, journey.proxy);
  const line = idle.take(key);
  if (line === null) return null;
  const bytesBefore = line.socket.bytesRead;
  try {
    return await send({ journey, target, line, keep: (kept) => idle.keep(key, kept) });
  } catch (error) {
    const isStale = error instanceof EgressFault && error.code === 'RESET' && line.socket.bytesRead === bytesBefore;
    if (!isStale) throw error;
    return null;
  }
}

async function sendOnNew(context: EgressContext, journey: HopJourney, target: TargetUrl): Promise<Hop> {
  const { policy, resolver, dnsTimeoutMs, idle } = context;
  const { proxy, mayForward } = journey;
  const { signal } = journey.deadline;
  const lookup: Lookup = { resolver, dnsTimeoutMs, signal };
  const resolved = await resolveTarget({ target, policy, lookup });
  if (resolved.kind === 'refused') return resolved;
  const route = proxy === null ? null : { proxy, mayForward, addresses: await resolveProxy(proxy.host, lookup) };
  const connection = await connectTo({ ...context, ...resolved, target, route, signal });
  const keep = journey.reuses ? (kept: Line) => idle.keep(lineKey(target, proxy), kept) : null;
  return send({ journey, target, line: openLine({ ...connection, origin: target.url.origin }), keep });
}

type Sending = {
  readonly journey: HopJourney;
  readonly target: TargetUrl;
  readonly line: Line;
  readonly keep: ((line: Line) => void) | null;
};

async function send({ journey, target, line, keep }: Sending): Promise<Hop> {
  const { request, deadline, answerTimeoutMs: ms } = journey;
  // The deadline of the whole exchange, because it also ends the body.
  const sent = () => exchange({ target, line, request, deadline, keep });
  const reply = await (ms === undefined ? sent() : answeredWithin(ms, { line, sent }));
  return { kind: 'answered', target, address: line.candidate.text, reply };
}

/** Closing the connection ends the exchange. A separate signal for this phase would cost more than the timer. */
async function answeredWithin(ms: number, { line, sent }: { line: Line; sent: () => Promise<Reply> }): Promise<Reply> {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    closeLine(line);
  }, ms);
  try {
    return await sent();
  } catch (error) {
    throw isLate ? new EgressFault('IDLE', `no response arrived for ${ms} ms`) : error;
  } finally {
    clearTimeout(timer);
  }
}

/** The next request of a redirect. The next hop checks its URL. */
type Redirect =
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal; readonly url: string }
  | { readonly kind: 'follow'; readonly url: string; readonly request: HopRequest };

const STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const TURNS_POST_INTO_GET: ReadonlySet<number> = new Set([301, 302, 303]);
const SECRETS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization']);
const BODY_HEADER = /^content-/;
const ABSOLUTE = /^[a-z][a-z0-9+.-]*:/i;
/** A backslash, or a control character of ASCII. */
const UNSAFE = /\\|[^\P{Cc}\u0080-\u009f]/u;

function redirectOf(params: { from: URL; request: HopRequest; reply: Reply }): Redirect {
  const { from, request, reply } = params;
  const location = reply.headers.location;
  if (!STATUSES.has(reply.status) || location === undefined || location === '') return { kind: 'none' };
  const url = resolveLocation(location, from);
  if (url === null) return refuse('INVALID_URL', 'the redirect has no valid URL', location);
  if (from.protocol === 'https:' && /^http:/i.test(url)) {
    return refuse('SCHEME', 'the redirect leads from https to http', url);
  }
  const origin = URL.parse(url)?.origin;
  return { kind: 'follow', url, request: nextRequest(request, reply.status, origin === from.origin) };
}

/**
 * Keeps an absolute URL as the server sent it, so that the strict checks see it before a parser repairs it. Encodes spaces, as all
 * clients do.
 */
function resolveLocation(header: string, from: URL): string | null {
  const location = Buffer.from(header, 'latin1').toString('utf8').trim().replaceAll(' ', '%20');
  if (UNSAFE.test(location)) return null;
  return ABSOLUTE.test(location) ? location : (URL.parse(location, from)?.href ?? null);
}

function nextRequest(request: HopRequest, status: number, isSameOrigin: boolean): HopRequest {
  const becomesGet = request.method === 'POST' && TURNS_POST_INTO_GET.has(status);
  const kept = Object.entries(request.headers).filter(
    ([name]) => (isSameOrigin || !SECRETS.has(name)) && !(becomesGet && BODY_HEADER.test(name)),
  );
  const headers = Object.fromEntries(kept);
  return becomesGet ? { method: 'GET', headers, body: null } : { ...request, headers };
}

function refuse(code: UrlRefusal['code'], message: string, url: string): Redirect {
  return { kind: 'refused', refusal: { code, message }, url };
}
