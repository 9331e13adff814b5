/** Tasks as they may be shown. Only the worker that downloads a resource needs the secrets of its headers and its URL. */
import { isSecretName, MASKED } from '../secret-names.ts';
import { FETCH_TYPE, isPair, type Pair } from './fetch-task.ts';

/** The payload of a job, without the secrets of a download. */
export function maskedPayload(type: string, payload: unknown): unknown {
  if (type !== FETCH_TYPE || typeof payload !== 'object' || payload === null) return payload;
  const { headers, url, ...rest } = payload as { headers?: unknown; url?: unknown };
  return {
    ...rest,
    ...(url === undefined ? {} : { url: typeof url === 'string' ? maskedUrl(url) : MASKED }),
    ...(headers === undefined ? {} : { headers: Array.isArray(headers) && headers.every(isPair) ? maskedHeaders(headers) : MASKED }),
  };
}

export const maskedHeaders = (headers: readonly Pair[]): Pair[] =>
  headers.map(([name, value]) => [name, isSecretName(name) ? MASKED : value]);

/** Without credentials, and without the values of parameters whose names sound secret. A URL without secrets is left as it was written. */
export function maskedUrl(text: string): string {
  // It has neither credentials nor parameters. Most URLs are seen here several times, and parsing takes a microsecond.
  if (text.length <= 200 && !/[@?]/.test(text)) return text;
  const url = URL.parse(text);
  if (url === null) return text.length > 200 ? `${text.slice(0, 200)}…` : text;
  if (url.username === '' && url.password === '' && url.search === '') return text;
  const before = url.href;
  url.username = '';
  url.password = '';
  for (const name of new Set(url.searchParams.keys())) {
    if (isSecretName(name)) url.searchParams.set(name, MASKED);
  }
  return url.href === before ? text : url.href;
}
