import assert from 'node:assert/strict';
import { dictionary } from '../core/dictionary.ts';

/** They describe the connection or the framing of the message, and those are not the caller's. */
const OWN: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'accept-encoding',
]);
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/** The body is wanted as it is counted, so no encoding is asked for. A bad header is a mistake in our program: it throws. */
export function requestHeaders(given: Readonly<Record<string, string>>, userAgent: string): Record<string, string> {
  const headers = new Map([
    ['user-agent', userAgent],
    ['accept', '*/*'],
  ]);
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    assert(NAME.test(key), `${JSON.stringify(name)} is not the name of a header`);
    assert(!OWN.has(key) && !key.startsWith('proxy-'), `the header ${key} is not the caller's to set`);
    assert(VALUE.test(value), `the value of the header ${key} has characters that a header cannot carry`);
    headers.set(key, value);
  }
  headers.set('accept-encoding', 'identity');
  return dictionary(headers);
}
