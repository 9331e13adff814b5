import { createSecureContext, getCACertificates } from 'node:tls';
import type { AddressPolicy } from '../core/address-policy.ts';
import { readTargetUrl, type UrlGuard, type UrlRefusal } from '../core/target-url.ts';
import type { Dialled } from './connection.ts';
import type { EgressAnswer, EgressRequest, EgressStream } from './egress-request.ts';
import { EgressFault } from './fault.ts';
import type { EgressContext } from './hops.ts';
import { fetchWhole, openStream } from './perform-request.ts';
import { resolveTarget } from './resolve-target.ts';
import { createResolver, type Resolver } from './resolver.ts';

export type { EgressAnswer, EgressRequest } from './egress-request.ts';

export type EgressOptions = {
  readonly policy: AddressPolicy;
  readonly resolver?: Resolver;
  readonly connectTimeoutMs: number;
  readonly dnsTimeoutMs: number;
  readonly userAgent: string;
  /** A certificate authority that is trusted beside the usual ones. */
  readonly tls?: { readonly ca?: string };
  onDial?(dial: Dialled): void;
};

export type Egress = UrlGuard & {
  fetch(request: EgressRequest): Promise<EgressAnswer>;
  open(request: EgressRequest): Promise<EgressStream>;
};

const CHECK_TIMEOUT_MS = 2_000;

/** Never throws for anything that a URL, a peer or the DNS does. */
export function createEgress(options: EgressOptions): Egress {
  const { policy, connectTimeoutMs, dnsTimeoutMs, userAgent } = options;
  const ca = options.tls?.ca;
  const context: EgressContext = {
    policy,
    userAgent,
    connectTimeoutMs,
    dnsTimeoutMs,
    resolver: options.resolver ?? createResolver({ dnsTimeoutMs }),
    secureContext: createSecureContext({
      minVersion: 'TLSv1.2',
      ...(ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }),
    }),
    onDial: options.onDial?.bind(options),
  };
  return {
    check: (url) => check(context, url),
    fetch: (request) => fetchWhole(context, request),
    open: (request) => openStream(context, request),
  };
}

/** A name that nobody knows yet may be registered: it is looked at again whenever it is called. */
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
