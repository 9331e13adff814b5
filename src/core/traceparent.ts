const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/s;
const ONLY_ZEROS = /^0+$/;
const MAX_LENGTH = 256;

/** W3C Trace Context: version, trace id, parent id and flags. Only versions after 00 may have more fields. */
export function parseTraceparent(text: unknown): { readonly traceId: string; readonly spanId: string } | null {
  const match = typeof text !== 'string' || text.length > MAX_LENGTH ? null : TRACEPARENT.exec(text);
  if (match === null) return null;
  const [, version, traceId, spanId, more] = match as unknown as [string, string, string, string, string | undefined];
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  return ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(spanId) ? null : { traceId, spanId };
}

export const isTraceparent = (text: unknown): text is string => parseTraceparent(text) !== null;

/** Ignores a header that is absent or not valid. */
export const traceparentOf = (header: unknown): string | null => (isTraceparent(header) ? header : null);
