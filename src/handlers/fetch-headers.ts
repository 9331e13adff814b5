import type { FetchTask } from '../core/ingest/fetch-task.ts';
import { HEADER_NAME, HEADER_VALUE, OWN_HEADERS } from '../core/request-headers.ts';
import { FetchError, permanent } from './fetch-verdict.ts';

export type RequestHeaders = {
  /** Names are in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** The names that are not sent. */
  readonly dropped: readonly string[];
};

export function requestHeadersOf(task: FetchTask): RequestHeaders {
  const headers = new Map<string, string>();
  const dropped: string[] = [];
  for (const [name, value] of task.headers) {
    const key = name.toLowerCase();
    // Credentials of a proxy belong to its pool.
    if (OWN_HEADERS.has(key) || key.startsWith('proxy-')) dropped.push(key);
    else if (HEADER_NAME.test(key) && HEADER_VALUE.test(value)) headers.set(key, value);
    else
      throw new FetchError(
        permanent('INVALID_HEADER', `the header ${JSON.stringify(name.slice(0, 100))} is not valid: correct it and submit again`),
      );
  }
  return { headers, dropped };
}
