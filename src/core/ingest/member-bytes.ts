const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

const OPENING = new Set([0x7b, 0x5b]);
const CLOSING = new Set([0x7d, 0x5d]);

/**
 * Returns the bytes of a member's value exactly as they were sent, without the white space around them. The bytes must be a valid JSON
 * object. A name that occurs twice has its last value, as for JSON.parse.
 */
export function memberBytes(json: Uint8Array, name: string): Uint8Array | null {
  let found: Uint8Array | null = null;
  for (const member of membersOf(json)) if (member.name === name) found = json.subarray(member.start, member.end);
  return found;
}

type Member = { readonly name: string; readonly start: number; readonly end: number };

function* membersOf(json: Uint8Array): Generator<Member> {
  let at = 0;
  while (at < json.length && json[at] !== QUOTE) at++;
  while (at < json.length) {
    const nameEnd = endOfString(json, at);
    const name = JSON.parse(Buffer.from(json.subarray(at, nameEnd)).toString('utf8')) as string;
    at = skipBlank(json, nameEnd);
    if (json[at] !== COLON) return;
    const start = skipBlank(json, at + 1);
    const end = endOfValue(json, start);
    yield { name, start, end: trimEnd(json, start, end) };
    at = end;
    while (at < json.length && json[at] !== QUOTE) at++;
  }
}

/** The position after the closing quote. */
function endOfString(json: Uint8Array, from: number): number {
  let at = from + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at + 1;
}

/** The position of the comma or the brace after a value. */
function endOfValue(json: Uint8Array, from: number): number {
  let depth = 0;
  let at = from;
  while (at < json.length) {
    const byte = json[at] as number;
    if (byte === QUOTE) {
      at = endOfString(json, at);
      continue;
    }
    if (OPENING.has(byte)) depth++;
    else if (CLOSING.has(byte) && --depth < 0) return at;
    else if (byte === COMMA && depth === 0) return at;
    at++;
  }
  return at;
}

function skipBlank(json: Uint8Array, from: number): number {
  let at = from;
  while (at < json.length && (json[at] as number) <= 0x20) at++;
  return at;
}

function trimEnd(json: Uint8Array, start: number, end: number): number {
  let at = end;
  while (at > start && (json[at - 1] as number) <= 0x20) at--;
  return at;
}
