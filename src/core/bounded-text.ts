import { dictionary } from './dictionary.ts';

/** Whether PostgreSQL can store the text: no NUL, no half surrogate pair. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** Replaces what PostgreSQL cannot store, and cuts the text at a whole character within `maxBytes` of UTF-8. */
export function boundText(text: string, maxBytes: number): string {
  const storable = text.toWellFormed().replaceAll('\0', '\uFFFD');
  if (storable.length * 3 <= maxBytes) return storable;
  const bytes = Buffer.from(storable);
  if (bytes.length <= maxBytes) return storable;
  let end = Math.floor(maxBytes);
  // A byte of the form 10xxxxxx continues a character: step back to where the character began.
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

/** Bounds the fields of a log line. Strings that are too long are cut; other values that are too large are dropped. */
export function boundFields(fields: Record<string, unknown>, maxBytes: number): Record<string, unknown> {
  if (sizeOf(fields) <= maxBytes) return fields;
  const kept = dictionary<unknown>([['truncated', true]]);
  let left = maxBytes - sizeOf(kept);
  for (const [name, value] of Object.entries(fields)) {
    const bounded = boundField(name, value, left);
    if (bounded === undefined) continue;
    kept[name] = bounded;
    left -= sizeOf({ [name]: bounded });
  }
  return kept;
}

function boundField(name: string, value: unknown, left: number): unknown {
  if (sizeOf({ [name]: value }) <= left) return value;
  if (typeof value !== 'string') return undefined;
  // Half, because a line break or a quotation mark takes twice its size in JSON.
  const cut = boundText(value, Math.max(0, left / 2 - sizeOf({ [name]: '' })));
  return cut !== '' && sizeOf({ [name]: cut }) <= left ? cut : undefined;
}

/** Bytes of JSON; infinite for a value that has no JSON form. */
function sizeOf(value: unknown): number {
  try {
    return Buffer.byteLength(JSON.stringify(value));
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
