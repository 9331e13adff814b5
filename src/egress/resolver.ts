import { Resolver as DnsResolver } from 'node:dns/promises';
import { type AddressPolicy, refusalOf } from '../core/address-policy.ts';
import { parseIp } from '../core/ip-address.ts';
import { addressRefusal, localhostAddresses, type TargetUrl, type UrlRefusal } from '../core/target-url.ts';
import { within } from './deadline.ts';
import type { Candidate } from './dial.ts';
import { EgressFault, faultFrom } from './fault.ts';

export type Resolver = {
  /** Returns all addresses of a name. Throws when the DNS gives no definite answer. */
  resolve(host: string, signal: AbortSignal): Promise<readonly string[]>;
};

const NO_ADDRESS: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA']);
/** The DNS client doubles its timeout with each try, so two tries take three times the first timeout. */
const TRIES = 2;
const SHARES = 3;

/**
 * Queries the DNS for A and AAAA records. The system's resolver is not used: it shares a small thread pool with all file access, so
 * a dead name server would stall the process. As a consequence `/etc/hosts` is not read.
 */
export function createResolver(options: { dnsTimeoutMs: number; servers?: readonly string[] }): Resolver {
  return {
    async resolve(host, signal) {
      const local = localhostAddresses(host);
      return local ?? (await ask(host, signal, options));
    },
  };
}

async function ask(
  host: string,
  signal: AbortSignal,
  options: { dnsTimeoutMs: number; servers?: readonly string[] },
): Promise<readonly string[]> {
  signal.throwIfAborted();
  // A new client for each name can be cancelled alone, and reads the current resolv.conf.
  const dns = new DnsResolver({ timeout: Math.ceil(options.dnsTimeoutMs / SHARES), tries: TRIES });
  if (options.servers !== undefined) dns.setServers([...options.servers]);
  const cancel = () => dns.cancel();
  const timer = setTimeout(cancel, options.dnsTimeoutMs);
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const answers = await Promise.allSettled([dns.resolve4(host), dns.resolve6(host)]);
    signal.throwIfAborted();
    return gather(answers);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
}

/** The addresses of one family are enough when the query for the other fails. */
function gather(answers: readonly PromiseSettledResult<string[]>[]): readonly string[] {
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length > 0) return addresses;
  const failure = answers.find((answer) => answer.status === 'rejected' && !NO_ADDRESS.has(answer.reason.code));
  if (failure?.status === 'rejected') throw failure.reason;
  return [];
}

export type Lookup = {
  readonly resolver: Resolver;
  readonly dnsTimeoutMs: number;
  readonly signal: AbortSignal;
};

export type ResolvedTarget =
  | { readonly kind: 'resolved'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal };

/** Further addresses are not tried. */
const MAX_CANDIDATES = 3;

/** Resolves the host once, and refuses it if any address is forbidden: a name with public and private addresses is an attack. */
export async function resolveTarget(params: { target: TargetUrl; policy: AddressPolicy; lookup: Lookup }): Promise<ResolvedTarget> {
  const { target, policy, lookup } = params;
  const answers = target.literal === null ? await queryHost(target.host, lookup) : [target.host];
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

/** A proxy is configured by the operator, so every address is allowed. */
export async function resolveProxy(host: string, lookup: Lookup): Promise<readonly Candidate[]> {
  const answers = parseIp(host) === null ? await queryHost(host, lookup) : [host];
  const candidates = answers.flatMap((text) => {
    const address = parseIp(text);
    return address === null ? [] : [{ text, address }];
  });
  if (candidates.length === 0) throw new EgressFault('DNS', `${host} has no address`);
  return inDialOrder(candidates);
}

async function queryHost(host: string, { resolver, dnsTimeoutMs, signal }: Lookup): Promise<readonly string[]> {
  const fault = () => new EgressFault('DNS', `${host} was not resolved within ${dnsTimeoutMs} ms`);
  try {
    const answers = await within({ ms: dnsTimeoutMs, signal, fault }, (phase) => resolver.resolve(host, phase));
    if (answers.length > 0) return answers;
  } catch (error) {
    signal.throwIfAborted();
    throw faultFrom(error, 'DNS');
  }
  throw new EgressFault('DNS', `${host} has no address`);
}

/** IPv4 comes first, because an attempt with broken IPv6 would use up its whole share of the time. */
function inDialOrder(candidates: readonly Candidate[]): readonly Candidate[] {
  return candidates.toSorted((a, b) => a.address.version - b.address.version).slice(0, MAX_CANDIDATES);
}
