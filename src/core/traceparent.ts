const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/s;
const VERSION_00 = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const VERSION_00_LENGTH = 55;
const ONLY_ZEROS = /^0+$/;
const MAX_LENGTH = 256;

/** The span that a request or a job comes from. */
export type TraceParent = { readonly traceId: string; readonly spanId: string; readonly isSampled: boolean };

/** W3C Trace Context: version, trace id, parent id and flags. Only versions after 00 may have more fields. */
export function parseTraceparent(text: unknown): TraceParent | null {
  if (typeof text !== 'string' || text.length > MAX_LENGTH) return null;
  // Nearly all have this version. Groups of the other expression take three times as long.
  if (isVersion00(text)) return { traceId: text.slice(3, 35), spanId: text.slice(36, 52), isSampled: isSampled(text.slice(53)) };
  const match = TRACEPARENT.exec(text);
  if (match === null) return null;
  const [, version, traceId, spanId, flags, more] = match as unknown as [string, string, string, string, string, string | undefined];
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(spanId)) return null;
  return { traceId, spanId, isSampled: isSampled(flags) };
}

const isVersion00 = (text: string): boolean => text.length === VERSION_00_LENGTH && VERSION_00.test(text);
const isSampled = (flags: string): boolean => (Number.parseInt(flags, 16) & 1) === 1;

export const isTraceparent = (text: unknown): text is string =>
  typeof text === 'string' && (isVersion00(text) || parseTraceparent(text) !== null);

/** Ignores a header that is absent or not valid. */
export const traceparentOf = (header: unknown): string | null => (isTraceparent(header) ? header : null);
