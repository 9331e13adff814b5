import type { AddressPolicy } from '../../src/core/address-policy.ts';
import { parseRange } from '../../src/core/ip-address.ts';
import { createEgress, type Egress, type EgressOptions, type EgressRequest } from '../../src/egress/egress.ts';
import type { Resolver } from '../../src/egress/resolver.ts';

const LOOPBACK: AddressPolicy = { allow: [parseRange('127.0.0.0/8')!, parseRange('::1')!], targets: [] };

/** Names as the test wants them; a name that is not there has no address. */
export function namesOf(names: Readonly<Record<string, readonly string[]>>): Resolver {
  return { resolve: async (host) => (Object.hasOwn(names, host) ? (names[host] ?? []) : []) };
}

/** May call this machine, and nothing else that is not public. */
export function localEgress(options: Partial<EgressOptions> = {}): Egress {
  return createEgress({
    policy: LOOPBACK,
    resolver: namesOf({}),
    connectTimeoutMs: 10_000,
    dnsTimeoutMs: 10_000,
    userAgent: 'Millrace/test',
    ...options,
  });
}

export function request(url: string, rest: Partial<EgressRequest> = {}): EgressRequest {
  return { url, timeoutMs: 20_000, maxBodyBytes: 10_000, overflow: 'fail', ...rest };
}
