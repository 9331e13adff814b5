const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/s;
const ONLY_ZEROS = /^0+$/;
const LONGEST = 256;

/** W3C Trace Context: version, trace, parent, flags. Only versions to come may say more after them. */
export function isTraceparent(text: string): boolean {
  const match = text.length > LONGEST ? null : TRACEPARENT.exec(text);
  if (match === null) return false;
  const [, version, traceId, parentId, more] = match as unknown as [string, string, string, string, string | undefined];
  if (version === 'ff' || (version === '00' && more !== undefined)) return false;
  return !ONLY_ZEROS.test(traceId) && !ONLY_ZEROS.test(parentId);
}

/** A header that is absent or no valid one says nothing. */
export const traceparentOf = (header: unknown): string | null =>
  typeof header === 'string' && isTraceparent(header) ? header : null;
