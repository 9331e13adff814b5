import { type AddressPolicy, refusalOf } from './address-policy.ts';
import { type IpAddress, parseIp } from './ip-address.ts';

/** A URL from a user that passed every check that needs no DNS. */
export type TargetUrl = {
  /** Without fragment and without a trailing dot in the host. */
  readonly url: URL;
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
  readonly literal: IpAddress | null;
};

export type UrlRefusal = {
  readonly code: 'INVALID_URL' | 'SCHEME' | 'CREDENTIALS' | 'PORT' | 'HOST' | 'ADDRESS';
  readonly message: string;
};

/** Checks a URL, including its DNS records. Returns null when it may be called. */
export type UrlGuard = { check(url: string): Promise<UrlRefusal | null> };

type Reading = { ok: true; target: TargetUrl } | { ok: false; refusal: UrlRefusal };

const MAX_LENGTH = 2048;
const FORBIDDEN = /[\p{Cc}\u0020\u00a0\\]/u;
const SCHEME = /^([a-z][a-z0-9+.-]*):/i;
/** URL parsers repair `http:host` and `http:///host`. Such URLs are refused, because the repaired host may not be the one meant. */
const COMPLETE = /^https?:\/\/[^/]/i;
const NAME = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/;
const LOCALHOST = /(?:^|\.)localhost$/;
const LOCALHOST_ADDRESSES = ['127.0.0.1', '::1'] as const;

/** The ports that the Fetch standard blocks, because a server of another protocol could act on the text of a request. */
const BLOCKED_PORTS: ReadonlySet<number> = new Set([
  ...[0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104],
  ...[109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526],
  ...[530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045],
  ...[4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080],
]);

/** Checks everything about a URL that needs no DNS. */
export function readTargetUrl(text: string, policy: AddressPolicy): Reading {
  const url = parseStrictly(text);
  if (!(url instanceof URL)) return { ok: false, refusal: url };
  const refusal = refusalOfParts(url);
  if (refusal !== null) return { ok: false, refusal };
  if (text.includes('#')) url.hash = '';
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isSecure = url.protocol === 'https:';
  const port = url.port === '' ? (isSecure ? 443 : 80) : Number(url.port);
  const target: TargetUrl = { url, host, port, isSecure, literal: parseIp(host) };
  const kind = specialKindOf(target, policy);
  return kind === null ? { ok: true, target } : { ok: false, refusal: addressRefusal(host, kind) };
}

/** `localhost` and its subdomains are this machine (RFC 6761) and need no DNS. Returns null for other names. */
export function localhostAddresses(host: string): readonly string[] | null {
  return LOCALHOST.test(host) ? LOCALHOST_ADDRESSES : null;
}

/** Names the kind of the address but not the address itself, which would reveal the internal network. */
export function addressRefusal(host: string, kind: string): UrlRefusal {
  return refuse(
    'ADDRESS',
    `${host} is not a public address (${kind}): use a public one, or ask the operator to allow its range with egress.allow`,
  );
}

function specialKindOf(target: TargetUrl, policy: AddressPolicy): string | null {
  if (target.literal !== null) return refusalOf(target.literal, target.port, policy);
  for (const address of localhostAddresses(target.host) ?? []) {
    const kind = refusalOf(parseIp(address)!, target.port, policy);
    if (kind !== null) return kind;
  }
  return null;
}

function parseStrictly(text: string): URL | UrlRefusal {
  if (text === '') return refuse('INVALID_URL', 'the URL is empty');
  if (text.length > MAX_LENGTH) return refuse('INVALID_URL', `the URL is longer than ${MAX_LENGTH} characters`);
  if (FORBIDDEN.test(text) || !text.isWellFormed()) {
    return refuse('INVALID_URL', 'the URL must not contain spaces, control characters or backslashes: percent-encode them');
  }
  const scheme = SCHEME.exec(text)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    return refuse('SCHEME', 'the URL must begin with https:// or http://');
  }
  if (!COMPLETE.test(text)) return refuse('INVALID_URL', 'the URL must be complete, such as https://example.com/hook');
  return URL.parse(text) ?? refuse('INVALID_URL', 'the URL is not valid: write it like https://example.com/hook');
}

function refusalOfParts(url: URL): UrlRefusal | null {
  if (url.username !== '' || url.password !== '') {
    return refuse('CREDENTIALS', 'the URL must not contain a user name or a password');
  }
  if (url.port !== '' && BLOCKED_PORTS.has(Number(url.port))) {
    return refuse('PORT', `port ${url.port} belongs to another protocol: use another port`);
  }
  const name = url.hostname.replace(/\.$/, '');
  const isName = name.length <= 253 && NAME.test(name);
  return isName || url.hostname.startsWith('[') ? null : refuse('HOST', 'the host must be a valid name or IP address');
}

function refuse(code: UrlRefusal['code'], message: string): UrlRefusal {
  return { code, message };
}
