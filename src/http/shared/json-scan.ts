/** The deepest accepted nesting of objects and arrays. */
export const MAX_DEPTH = 64;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const OPEN_BRACE = 0x7b;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACE = 0x7d;
const CLOSE_BRACKET = 0x5d;
const MANY_DIGITS = 300;

/** In addition to the value of the member. */
const WEIGHT_OF_NAME = 2;

/** The depth of a list that is a member of the whole, such as the jobs of a batch. */
const LIST_DEPTH = 2;

/** More entries are not recorded. No list that a request may contain is longer. */
const MAX_ENTRIES = 10_000;

/** An entry of a list at that depth: the bytes from `start` to `end`, and how many values they contain. */
export type Entry = { readonly start: number; readonly end: number; readonly values: number };

/** What the bytes of a JSON text show before they are parsed. It accepts wrong syntax, which the parser reports later. */
export class JsonScan {
  isTooDeep = false;
  /** A string has a \u escape, which can stand for any character. */
  hasUnicodeEscape = false;
  /** A number has an exponent or so many digits that it may exceed a double. */
  hasGreatNumber = false;
  /** The number of values, at least. A member of an object counts as three, because it takes that long. It decides how long the text takes to parse, and how much memory the result needs. */
  values = 1;
  /** The lists have so many entries that not all are recorded. */
  hasManyEntries = false;
  /** The entries of lists that are members of the whole, in order. Empty unless `withEntries`. */
  readonly entries: Entry[] = [];
  readonly #bytes: Uint8Array;
  readonly #withEntries: boolean;
  #at = 0;
  #depth = 0;
  #digits = 0;
  #isInString = false;
  /** Where the current entry began, or -1 outside of lists. */
  #start = -1;
  #valuesBefore = 0;

  constructor(bytes: Uint8Array, { withEntries = false } = {}) {
    this.#bytes = bytes;
    this.#withEntries = withEntries;
  }

  /** Scans the next `count` bytes. Returns false when the end is reached or the text is too deep. */
  advance(count: number): boolean {
    const bytes = this.#bytes;
    const end = Math.min(bytes.length, this.#at + count);
    let at = this.#at;
    let digits = this.#digits;
    let values = this.values;
    if (this.#isInString) at = this.#skipString(at, end) + 1;
    for (; at < end; at++) {
      const byte = bytes[at] as number;
      if (byte === QUOTE) {
        at = this.#skipString(at + 1, end);
        digits = 0;
      } else if (byte === COMMA) {
        values++;
        digits = 0;
        if (this.#start >= 0 && this.#depth === LIST_DEPTH) this.#endEntry(at, values);
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        values++;
        if (++this.#depth > MAX_DEPTH) {
          this.isTooDeep = true;
          return false;
        }
        if (this.#withEntries && this.#depth === LIST_DEPTH && byte === OPEN_BRACKET) {
          this.#start = at + 1;
          this.#valuesBefore = values;
        }
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        if (this.#start >= 0 && this.#depth === LIST_DEPTH) {
          this.#endEntry(at, values);
          this.#start = -1;
        }
        this.#depth--;
        digits = 0;
      } else if (byte >= 0x30 && byte <= 0x39) {
        if (++digits > MANY_DIGITS) this.hasGreatNumber = true;
      } else if (byte === COLON) {
        values += WEIGHT_OF_NAME;
        digits = 0;
      } else {
        // OR with 0x20 turns a letter into lower case: this matches e or E after a digit.
        if (digits > 0 && (byte | 0x20) === 0x65) this.hasGreatNumber = true;
        digits = 0;
      }
    }
    this.#at = at;
    this.#digits = digits;
    this.values = values;
    return at < bytes.length;
  }

  /** Returns the position of the closing quote, or the last position before `end` if the string is longer. */
  #skipString(from: number, end: number): number {
    const bytes = this.#bytes;
    let at = from;
    for (; at < end && bytes[at] !== QUOTE; at++) {
      // A pair of bytes is never divided, so a string may end one byte beyond `end`.
      if (bytes[at] === BACKSLASH && bytes[++at] === LOWER_U) this.hasUnicodeEscape = true;
    }
    this.#isInString = at >= end;
    return this.#isInString ? at - 1 : at;
  }

  #endEntry(end: number, values: number): void {
    if (this.entries.length === MAX_ENTRIES) {
      this.hasManyEntries = true;
      return;
    }
    this.entries.push({ start: this.#start, end, values: values - this.#valuesBefore + 1 });
    this.#start = end + 1;
    this.#valuesBefore = values;
  }
}
