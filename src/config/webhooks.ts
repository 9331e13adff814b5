import { type AddressPolicy, specialRangeOf } from '../core/address-policy.ts';
import { AppError } from '../core/errors.ts';
import { type IpRange, parseIp, parseRange } from '../core/ip-address.ts';

type Get = <T>(name: string) => T;

export type WebhookSettings = {
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly backoff: { readonly initialMs: number; readonly maxMs: number };
  /** Calls under way at once in a process. */
  readonly concurrency: number;
  readonly disableAfterMs: number;
  readonly secretOverlapMs: number;
};

export type EgressSettings = {
  readonly policy: AddressPolicy;
  readonly connectTimeoutMs: number;
  readonly dnsTimeoutMs: number;
};

/** What the section [webhooks] says. */
export function webhooksOf(get: Get): WebhookSettings {
  const backoff = { initialMs: get<number>('webhooks.backoff_base'), maxMs: get<number>('webhooks.backoff_max') };
  if (backoff.maxMs < backoff.initialMs) throw contradiction('webhooks.backoff_max', 'must not be below backoff_base');
  return {
    timeoutMs: get<number>('webhooks.timeout'),
    maxRetries: get<number>('webhooks.max_retries'),
    backoff,
    concurrency: get<number>('webhooks.concurrency'),
    disableAfterMs: get<number>('webhooks.disable_after'),
    secretOverlapMs: get<number>('webhooks.secret_overlap'),
  };
}

/** What the section [egress] says. */
export function egressOf(get: Get): EgressSettings {
  const targets = get<readonly string[]>('egress.targets');
  // Whoever can reach the server could otherwise reach into this machine through it.
  if (targets.length > 0 && !isLoopback(get<string>('server.host')))
    throw contradiction('egress.targets', 'needs a server.host such as 127.0.0.1, which only this machine can reach');
  const allow = get<readonly string[]>('egress.allow').map((text) => parseRange(text) as IpRange);
  return {
    policy: { allow, targets },
    connectTimeoutMs: get<number>('egress.connect_timeout'),
    dnsTimeoutMs: get<number>('egress.dns_timeout'),
  };
}

function isLoopback(host: string): boolean {
  const address = parseIp(host);
  return host === 'localhost' || (address !== null && specialRangeOf(address) === 'loopback');
}

function contradiction(field: string, message: string): AppError {
  const issue = { field, code: 'INVALID_VALUE', message: `${field} ${message}` };
  return new AppError('INVALID_CONFIG', {
    message: `The configuration is not valid: ${issue.message}`,
    details: [issue],
  });
}
