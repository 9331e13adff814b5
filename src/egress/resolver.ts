import { Resolver as DnsResolver } from 'node:dns/promises';
import { localhostAddresses } from '../core/target-url.ts';

export type Resolver = {
  /** All addresses of a name, none when it has none. Throws when nobody could say. */
  resolve(host: string, signal: AbortSignal): Promise<readonly string[]>;
};

const NO_ADDRESS: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA']);
/** The DNS client doubles its patience with each try: two tries take three of these. */
const TRIES = 2;
const SHARES = 3;

/**
 * Asks the DNS itself, for A and AAAA once each. The system's resolver is left out: it works on few threads that all
 * file access shares, so one dead name server would stop the process. `/etc/hosts` is therefore not read.
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
  // One client for each name: it can be cancelled alone, and it sees a changed resolv.conf.
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

/** One family that could not be asked is no obstacle while the other has an answer. */
function gather(answers: readonly PromiseSettledResult<string[]>[]): readonly string[] {
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length > 0) return addresses;
  const failure = answers.find((answer) => answer.status === 'rejected' && !NO_ADDRESS.has(answer.reason.code));
  if (failure?.status === 'rejected') throw failure.reason;
  return [];
}
