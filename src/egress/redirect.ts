import type { UrlRefusal } from '../core/target-url.ts';
import type { HopRequest, Reply } from './exchange.ts';

/** What to ask next, and where. The address is only text: the next hop examines it as it would any other. */
export type Redirect =
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly refusal: UrlRefusal; readonly url: string }
  | { readonly kind: 'follow'; readonly url: string; readonly request: HopRequest };

const STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const TURNS_POST_INTO_GET: ReadonlySet<number> = new Set([301, 302, 303]);
const SECRETS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization']);
const OF_THE_BODY = /^content-/;
const ABSOLUTE = /^[a-z][a-z0-9+.-]*:/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSAFE = /[\u0000-\u001f\u007f\\]/;

export function redirectOf(params: { from: URL; request: HopRequest; reply: Reply }): Redirect {
  const { from, request, reply } = params;
  const location = reply.headers.location;
  if (!STATUSES.has(reply.status) || location === undefined || location === '') return { kind: 'none' };
  const url = resolveLocation(location, from);
  if (url === null) return refuse('INVALID_URL', 'the redirect leads to something that is not a URL', location);
  if (from.protocol === 'https:' && /^http:/i.test(url)) {
    return refuse('SCHEME', 'the redirect leads from https to http', url);
  }
  const origin = URL.parse(url)?.origin;
  return { kind: 'follow', url, request: nextRequest(request, reply.status, origin === from.origin) };
}

/**
 * An absolute address is passed on as it is written, so that the strict reader sees what the server sent and not what a
 * parser made of it. Spaces are encoded as every client does.
 */
function resolveLocation(header: string, from: URL): string | null {
  const location = Buffer.from(header, 'latin1').toString('utf8').trim().replaceAll(' ', '%20');
  if (UNSAFE.test(location)) return null;
  return ABSOLUTE.test(location) ? location : (URL.parse(location, from)?.href ?? null);
}

function nextRequest(request: HopRequest, status: number, isSameOrigin: boolean): HopRequest {
  const becomesGet = request.method === 'POST' && TURNS_POST_INTO_GET.has(status);
  const kept = Object.entries(request.headers).filter(
    ([name]) => (isSameOrigin || !SECRETS.has(name)) && !(becomesGet && OF_THE_BODY.test(name)),
  );
  const headers = Object.fromEntries(kept);
  return becomesGet ? { method: 'GET', headers, body: null } : { ...request, headers };
}

function refuse(code: UrlRefusal['code'], message: string, url: string): Redirect {
  return { kind: 'refused', refusal: { code, message }, url };
}
