import { lookUp } from '../core/dictionary.ts';

/** Named by the operator, never by a user: the address of a proxy is not guarded. */
export type ProxyAddress = {
  readonly kind: 'http' | 'socks5';
  readonly host: string;
  readonly port: number;
  readonly username: string | null;
  readonly password: string | null;
};

const KINDS: Readonly<Record<string, { kind: ProxyAddress['kind']; port: number }>> = {
  'http:': { kind: 'http', port: 80 },
  'socks5:': { kind: 'socks5', port: 1080 },
};

/** SOCKS5 gives each of the two one byte for its length (RFC 1929); the same bound serves HTTP. */
const MAX_CREDENTIAL_BYTES = 255;

/** `http://user:password@host:3128` or `socks5://host:1080`, and nothing behind the port. */
export function parseProxy(text: string): ProxyAddress | null {
  const url = URL.parse(text);
  const known = url === null ? undefined : lookUp(KINDS, url.protocol);
  if (url === null || known === undefined || url.hostname === '') return null;
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') return null;
  const port = url.port === '' ? known.port : Number(url.port);
  const username = decode(url.username);
  const password = decode(url.password);
  if (port === 0 || username === undefined || password === undefined) return null;
  if (username === null && password !== null) return null;
  return { kind: known.kind, host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port, username, password };
}

/** null = not given, undefined = cannot be one. */
function decode(part: string): string | null | undefined {
  if (part === '') return null;
  try {
    const text = decodeURIComponent(part);
    return Buffer.byteLength(text) <= MAX_CREDENTIAL_BYTES ? text : undefined;
  } catch {
    return undefined;
  }
}
