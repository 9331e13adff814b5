/** Headers of the connection and of the message framing, which only the connection itself sets. */
export const OWN_HEADERS: ReadonlySet<string> = new Set([
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

/** A valid name, in lower case. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
export const HEADER_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;
