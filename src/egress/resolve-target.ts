import { type AddressPolicy, refusalOf } from '../core/address-policy.ts';
import { parseIp } from '../core/ip-address.ts';
import { addressRefusal, type TargetUrl, type UrlRefusal } from '../core/target-url.ts';
import { within } from './deadline.ts';
import type { Candidate } from './dial.ts';
import { EgressFault, faultFrom } from './fault.ts';
import type { Resolver } from './resolver.ts';

export type Lookup = {
  readonly resolver: Resolver;
  readonly dnsTimeoutMs: number;
  readonly signal: AbortSignal;
};

export type ResolvedTarget =
  | { readonly kind: 'resolved'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal };

/** More addresses than these are not tried. */
const MAX_CANDIDATES = 3;

/**
 * Asks once, and every answer must be one that may be called: a name with one good and one bad address is a name that
 * somebody prepared.
 */
export async function resolveTarget(params: {
  target: TargetUrl;
  policy: AddressPolicy;
  lookup: Lookup;
}): Promise<ResolvedTarget> {
  const { target, policy, lookup } = params;
  const answers = target.literal === null ? await lookUp(target.host, lookup) : [target.host];
  const candidates: Candidate[] = [];
  for (const text of answers) {
    const address = parseIp(text);
    const kind = address === null ? 'unknown' : refusalOf(address, target.port, policy);
    if (address === null || kind !== null) {
      return { kind: 'refused', refusal: addressRefusal(target.host, kind ?? 'unknown') };
    }
    candidates.push({ text, address });
  }
  return { kind: 'resolved', candidates: inDialOrder(candidates) };
}

/** The operator's own proxy: wherever it is, it may be called. */
export async function resolveProxy(host: string, lookup: Lookup): Promise<readonly Candidate[]> {
  const answers = parseIp(host) === null ? await lookUp(host, lookup) : [host];
  const candidates = answers.flatMap((text) => {
    const address = parseIp(text);
    return address === null ? [] : [{ text, address }];
  });
  if (candidates.length === 0) throw new EgressFault('DNS', `${host} has no address`);
  return inDialOrder(candidates);
}

async function lookUp(host: string, { resolver, dnsTimeoutMs, signal }: Lookup): Promise<readonly string[]> {
  const fault = new EgressFault('DNS', `${host} was not resolved within ${dnsTimeoutMs} ms`);
  try {
    const answers = await within({ ms: dnsTimeoutMs, signal, fault }, (phase) => resolver.resolve(host, phase));
    if (answers.length > 0) return answers;
  } catch (error) {
    signal.throwIfAborted();
    throw faultFrom(error, 'DNS');
  }
  throw new EgressFault('DNS', `${host} has no address`);
}

/** IPv4 first: where IPv6 is configured but leads nowhere, an attempt at it costs its whole share of the time. */
function inDialOrder(candidates: readonly Candidate[]): readonly Candidate[] {
  return candidates.toSorted((a, b) => a.address.version - b.address.version).slice(0, MAX_CANDIDATES);
}
