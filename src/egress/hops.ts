import type { SecureContext } from 'node:tls';
import type { AddressPolicy } from '../core/address-policy.ts';
import { readTargetUrl, type TargetUrl, type UrlRefusal } from '../core/target-url.ts';
import { connectTo, type Dialled } from './connection.ts';
import { exchange, type HopRequest, type Reply } from './exchange.ts';
import { EgressFault } from './fault.ts';
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
};

export type Journey = {
  readonly url: string;
  readonly request: HopRequest;
  readonly redirects: number;
  readonly proxy: ProxyAddress | null;
  readonly signal: AbortSignal;
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
  for (let hops = 0; ; hops++) {
    const hop = await hopTo(context, { ...journey, url, request });
    if (hop.kind === 'refused') return { ...hop, url };
    const { target, reply, address } = hop;
    const redirect = journey.redirects === 0 ? ({ kind: 'none' } as const) : redirectOf({ from: target.url, request, reply });
    if (redirect.kind === 'none') {
      return { kind: 'arrived', url: target.url.href, address, hops, reply, method: request.method };
    }
    reply.close();
    if (redirect.kind === 'refused') return redirect;
    if (hops === journey.redirects) {
      throw new EgressFault('TOO_MANY_REDIRECTS', `the response redirected more than ${journey.redirects} times`);
    }
    ({ url, request } = redirect);
  }
}

type Hop =
  | { readonly kind: 'answered'; readonly target: TargetUrl; readonly address: string; readonly reply: Reply }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal };

async function hopTo(context: EgressContext, journey: Journey): Promise<Hop> {
  const { policy, resolver, dnsTimeoutMs } = context;
  const { signal, request } = journey;
  const reading = readTargetUrl(journey.url, policy);
  if (!reading.ok) return { kind: 'refused', refusal: reading.refusal };
  const { target } = reading;
  const lookup: Lookup = { resolver, dnsTimeoutMs, signal };
  const resolved = await resolveTarget({ target, policy, lookup });
  if (resolved.kind === 'refused') return resolved;
  const { proxy } = journey;
  const route = proxy === null ? null : { proxy, addresses: await resolveProxy(proxy.host, lookup) };
  const { socket, candidate } = await connectTo({ ...context, ...resolved, target, route, signal });
  const reply = await exchange({ target, socket, request, signal });
  return { kind: 'answered', target, address: candidate.text, reply };
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
