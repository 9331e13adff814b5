import type { IncomingMessage } from 'node:http';
import { AppError } from '../../core/errors.ts';
import { parseIp } from '../../core/ip-address.ts';

export type OriginRules = {
  /** The names by which clients reach the server, in addition to `localhost` and every IP address; "*" allows all. */
  readonly allowedHosts: readonly string[];
  /** Web pages of these origins may call the API. */
  readonly corsOrigins: readonly string[];
};

/** Returns the reason to refuse the request, or null. `forwardedHost` comes from a trusted proxy. */
type OriginCheck = (raw: IncomingMessage, forwardedHost?: string) => AppError | null;

/** How many Host headers are remembered as allowed. Every IP address is allowed, so callers could send any number of them. */
const REMEMBERED_HOSTS = 256;

/**
 * Refuses requests that a web page of another site makes a browser send, and requests with two identities. A page can reach this
 * server under its own name, if it changes the address of that name (DNS rebinding); the Host header then has that name.
 */
export function originCheck({ allowedHosts, corsOrigins }: OriginRules): OriginCheck {
  const names = new Set(['localhost', ...allowedHosts.map((name) => name.toLowerCase())]);
  const origins = new Set(corsOrigins);
  const allowsAll = names.has('*');
  const remembered = new Set<string>();
  const refusalOfHost = (host: string): AppError | null => {
    if (allowsAll || remembered.has(host)) return null;
    const name = nameIn(host);
    if (name === null || !(names.has(name) || isAddress(name))) return unknownHost(host);
    if (remembered.size < REMEMBERED_HOSTS) remembered.add(host);
    return null;
  };
  return (raw, forwardedHost) => {
    const { host, origin, 'sec-fetch-site': site } = raw.headers;
    if (hasRepeatedIdentity(raw.rawHeaders)) return repeatedIdentity();
    // Only HTTP/1.0 has requests without the header, and browsers do not send those.
    const refusal = (host === undefined ? null : refusalOfHost(host)) ?? (forwardedHost ? refusalOfHost(forwardedHost) : null);
    if (refusal !== null || (origin === undefined && site === undefined)) return refusal;
    return isFromHere(raw, forwardedHost || host) || (origin !== undefined && origins.has(origin)) ? null : crossSite();
  };
}

const HOST = /^(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{0,5})?$/i;

/** The name or address in a Host header, in lower case and without the port and the final dot. */
function nameIn(host: string): string | null {
  const name = HOST.exec(host)?.[1]?.toLowerCase();
  return name?.replace(/(?<=[^.])\.$/, '') ?? null;
}

/** An address needs no DNS, so that nobody can make it lead here. */
const isAddress = (name: string): boolean => parseIp(name.startsWith('[') ? name.slice(1, -1) : name) !== null;

/**
 * Browsers say in Sec-Fetch-Site where a request comes from. To plain HTTP they send this header only on loopback addresses, and
 * elsewhere only Origin. Links from other sites may open a page here.
 */
function isFromHere({ method, headers }: IncomingMessage, host: string | undefined): boolean {
  const site = headers['sec-fetch-site'];
  if (site === 'same-origin' || site === 'none') return true;
  if (site === undefined) return isOriginOf(headers.origin, host);
  return method === 'GET' && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
}

/** A proxy may have changed the protocol, so that only the host and its port count. */
const isOriginOf = (origin: string | undefined, host: string | undefined): boolean =>
  host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);

/** Node keeps the first of two such headers, and a proxy before it may have checked the second. */
function hasRepeatedIdentity(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  let authorizations = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
    else if (name.length === 13 && name.toLowerCase() === 'authorization') authorizations++;
  }
  return hosts > 1 || authorizations > 1;
}

function repeatedIdentity(): AppError {
  const message = 'The request has more than one Host or Authorization header. Send each of them once.';
  const details = [{ field: 'headers', code: 'REPEATED_HEADER', message }];
  return new AppError('INVALID_REQUEST', { message, details, problem: 'RFA_REQUEST_MALFORMED' });
}

const USE_KNOWN_HOST = 'Use the address of the server, or ask its operator to add the name to server.allowed_hosts.';

function unknownHost(host: string): AppError {
  const shown = HOST.test(host) ? `"${host.slice(0, 253)}"` : 'of the request';
  const message = `The host ${shown} is not a name of this server. ${USE_KNOWN_HOST}`;
  const details = [{ field: 'host', code: 'UNKNOWN_HOST', message }];
  return new AppError('INVALID_REQUEST', { message, details, problem: 'RFA_REQUEST_UNKNOWN_HOST' });
}

const CALL_FROM_HERE = 'Call the server from its own pages, or ask its operator to add the origin to server.cors_origins.';

function crossSite(): AppError {
  const message = `Web pages of other origins may not call this server. ${CALL_FROM_HERE}`;
  const details = [{ field: 'origin', code: 'CROSS_SITE', message }];
  return new AppError('FORBIDDEN', { message, details, problem: 'RFA_REQUEST_CROSS_SITE' });
}
