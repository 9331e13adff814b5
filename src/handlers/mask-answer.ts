import { isSecretName, MASKED } from '../core/secret-names.ts';

// A name, perhaps quoted, with its colon or equals sign; and what may follow if it is no list and no object: a string that may be
// cut off, or plain text.
const NAME = /([\w.-]+)\\*["']?\s*[:=]\s*/g;
const VALUE = /"(?:[^"\\]|\\.)*"?|[^,;&}\r\n]+/y;

/** Secrets that are known by their form, whatever they are called: ours, those of the usual schemes, and JSON Web Tokens. */
const FORMS =
  /\bwhsec_[\w+/=-]+|\bmr_[\w-]{8,}|\b(?:Bearer|Basic|Digest|Negotiate)\s+[^\s"',;<>]{8,}|\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?/gi;

const CLOSING: ReadonlyMap<string, string> = new Map([
  ['{', '}'],
  ['[', ']'],
]);

/** Without the values of whatever is named like a secret, in JSON, forms and headers alike, and without what looks like one. */
export function maskAnswer(text: string): string {
  return maskNamed(text).replaceAll(FORMS, MASKED);
}

function maskNamed(text: string): string {
  let masked = '';
  let from = 0;
  for (const { 0: all, 1: name = '', index } of text.matchAll(NAME)) {
    if (index < from || !isSecretName(name)) continue;
    const start = index + all.length;
    const end = endOfValue(text, start);
    if (end === start) continue;
    masked += text.slice(from, start) + MASKED;
    from = end;
  }
  return masked + text.slice(from);
}

function endOfValue(text: string, start: number): number {
  if (CLOSING.has(text[start] ?? '')) return endOfGroup(text, start);
  VALUE.lastIndex = start;
  return VALUE.exec(text) === null ? start : VALUE.lastIndex;
}

/** Behind the bracket that closes the first one; the end of the text where none does. Brackets within strings are none. */
function endOfGroup(text: string, start: number): number {
  const open: string[] = [];
  for (let at = start; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '\\') at++;
    else if (character === '"') at = endOfString(text, at);
    else if (CLOSING.has(character)) open.push(CLOSING.get(character) as string);
    else if (character === open.at(-1)) {
      open.pop();
      if (open.length === 0) return at + 1;
    }
  }
  return text.length;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at;
  }
  return text.length;
}
