import { type AddressPolicy, refusalOf } from './address-policy.ts';
import { type IpAddress, parseIp } from './ip-address.ts';

/** A URL that a user named and that may be called, as far as its text tells. */
export type TargetUrl = {
  /** Without fragment and without the dot at the end of the name. */
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

/** What services need of egress. null = may be called. */
export type UrlGuard = { check(url: string): Promise<UrlRefusal | null> };

type Reading = { ok: true; target: TargetUrl } | { ok: false; refusal: UrlRefusal };

const MAX_LENGTH = 2048;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const FORBIDDEN = /[\u0000-\u0020\u007f-\u00a0\\]/;
const SCHEME = /^([a-z][a-z0-9+.-]*):/i;
/** URL parsers repair `http:host` and `http:///host`; what needs repair was not meant for us. */
const COMPLETE = /^https?:\/\/[^/]/i;
const LABEL = /^[a-z0-9_-]{1,63}$/;
const LOCALHOST = /(?:^|\.)localhost$/;
const LOCALHOST_ADDRESSES = ['127.0.0.1', '::1'] as const;

/** The ports that the Fetch standard blocks: each belongs to a protocol that can be made to act on the text of a request. */
const BLOCKED_PORTS: ReadonlySet<number> = new Set([
  ...[0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104],
  ...[109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526],
  ...[530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045],
  ...[4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080],
]);

/** Everything that can be known of a URL without asking the DNS. */
export function readTargetUrl(text: string, policy: AddressPolicy): Reading {
  const url = parseStrictly(text);
  if (!(url instanceof URL)) return { ok: false, refusal: url };
  const refusal = refusalOfParts(url);
  if (refusal !== null) return { ok: false, refusal };
  url.hash = '';
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isSecure = url.protocol === 'https:';
  const port = url.port === '' ? (isSecure ? 443 : 80) : Number(url.port);
  const target: TargetUrl = { url, host, port, isSecure, literal: parseIp(host) };
  const kind = specialKindOf(target, policy);
  return kind === null ? { ok: true, target } : { ok: false, refusal: addressRefusal(host, kind) };
}

/** Names below `localhost` are this machine by standard (RFC 6761); no DNS is to be asked. null = an ordinary name. */
export function localhostAddresses(host: string): readonly string[] | null {
  return LOCALHOST.test(host) ? LOCALHOST_ADDRESSES : null;
}

/** Says the kind but never the address: what a name means inside a network is nobody's business outside. */
export function addressRefusal(host: string, kind: string): UrlRefusal {
  return refuse(
    'ADDRESS',
    `${host} does not lead to a public address (${kind}): use one that does, or have the operator open its range with egress.allow`,
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
    return refuse('INVALID_URL', 'a URL has no spaces, control characters or backslashes: percent-encode them');
  }
  const scheme = SCHEME.exec(text)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    return refuse('SCHEME', 'the URL must begin with https:// or http://');
  }
  if (!COMPLETE.test(text)) return refuse('INVALID_URL', 'write the URL in full, such as https://example.com/hook');
  return URL.parse(text) ?? refuse('INVALID_URL', 'this is not a valid URL: write it as https://example.com/hook');
}

function refusalOfParts(url: URL): UrlRefusal | null {
  if (url.username !== '' || url.password !== '') {
    return refuse('CREDENTIALS', 'a URL may not carry a user name or a password');
  }
  if (url.port !== '' && BLOCKED_PORTS.has(Number(url.port))) {
    return refuse('PORT', `port ${url.port} belongs to another protocol and may not be called`);
  }
  const name = url.hostname.replace(/\.$/, '');
  const isName = name.length <= 253 && name.split('.').every((label) => LABEL.test(label));
  return isName || url.hostname.startsWith('[') ? null : refuse('HOST', 'the host is not a valid name or address');
}

function refuse(code: UrlRefusal['code'], message: string): UrlRefusal {
  return { code, message };
}
