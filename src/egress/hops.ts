import type { SecureContext } from 'node:tls';
import type { AddressPolicy } from '../core/address-policy.ts';
import { readTargetUrl, type TargetUrl, type UrlRefusal } from '../core/target-url.ts';
import { connectTo, type Dialled, type ProxyRoute } from './connection.ts';
import { exchange, type HopRequest, type Reply } from './exchange.ts';
import { EgressFault } from './fault.ts';
import type { ProxyAddress } from './proxy-address.ts';
import { redirectOf } from './redirect.ts';
import { type Lookup, resolveProxy, resolveTarget } from './resolve-target.ts';
import type { Resolver } from './resolver.ts';

/** What all exchanges of one egress have in common. */
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

/** Each hop is examined, resolved, checked and dialled as if it were the first. */
export async function travel(context: EgressContext, journey: Journey): Promise<Arrival> {
  let { url, request } = journey;
  for (let hops = 0; ; hops++) {
    const hop = await hopTo(context, { ...journey, url, request });
    if (hop.kind === 'refused') return { ...hop, url };
    const { target, reply, address } = hop;
    const redirect =
      journey.redirects === 0 ? ({ kind: 'none' } as const) : redirectOf({ from: target.url, request, reply });
    if (redirect.kind === 'none') {
      return { kind: 'arrived', url: target.url.href, address, hops, reply, method: request.method };
    }
    reply.close();
    if (redirect.kind === 'refused') return redirect;
    if (hops === journey.redirects) {
      throw new EgressFault('TOO_MANY_REDIRECTS', `redirected more than ${journey.redirects} times`);
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
  const route = await routeThrough(journey.proxy, lookup);
  const { socket, candidate } = await connectTo({ ...context, ...resolved, target, route, signal });
  const reply = await exchange({ target, socket, request, signal });
  return { kind: 'answered', target, address: candidate.text, reply };
}

async function routeThrough(proxy: ProxyAddress | null, lookup: Lookup): Promise<ProxyRoute | null> {
  return proxy === null ? null : { proxy, addresses: await resolveProxy(proxy.host, lookup) };
}
