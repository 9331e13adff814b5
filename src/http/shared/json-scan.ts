/** The deepest accepted nesting of objects and arrays. */
export const MAX_DEPTH = 64;

/** What the bytes show before they are parsed. */
export type Scan = {
  readonly isTooDeep: boolean;
  /** A string has a \u escape, which can stand for any character. */
  readonly hasUnicodeEscape: boolean;
  /** A number has an exponent or so many digits that it may exceed a double. */
  readonly hasGreatNumber: boolean;
};

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const OPEN_BRACE = 0x7b;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACE = 0x7d;
const CLOSE_BRACKET = 0x5d;
const MANY_DIGITS = 300;

/** Scans the bytes once. It accepts wrong syntax, which the parser reports later. */
export function scanJson(bytes: Uint8Array): Scan {
  let depth = 0;
  let digits = 0;
  let hasUnicodeEscape = false;
  let hasGreatNumber = false;
  const { length } = bytes;
  for (let at = 0; at < length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      for (at++; at < length && bytes[at] !== QUOTE; at++) {
        if (bytes[at] === BACKSLASH && bytes[++at] === LOWER_U) hasUnicodeEscape = true;
      }
      digits = 0;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (++depth > MAX_DEPTH) return { isTooDeep: true, hasUnicodeEscape, hasGreatNumber };
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--;
      digits = 0;
    } else if (byte >= 0x30 && byte <= 0x39) {
      if (++digits > MANY_DIGITS) hasGreatNumber = true;
    } else {
      // OR with 0x20 turns a letter into lower case: this matches e or E after a digit.
      if (digits > 0 && (byte | 0x20) === 0x65) hasGreatNumber = true;
      digits = 0;
    }
  }
  return { isTooDeep: false, hasUnicodeEscape, hasGreatNumber };
}
