import { isSecretName, MASKED } from './secret-names.ts';

// A name, perhaps quoted, with its colon or equals sign; and a value that is a string, perhaps cut off, or plain text.
const NAME = /(?<![\w.-])([\w.-]+)\\*["']?\s*[:=]\s*/g;
const VALUE = /"(?:[^"\\]|\\.)*"?|[^,;&}\r\n]+/y;

/** Secrets that are recognizable by their form: ours, those of common authentication schemes, JSON Web Tokens, and passwords in URLs. */
const FORMS =
  /\bwhsec_[\w+/=-]+|\bmr_[\w-]{8,}|\b(?:Bearer|Basic|Digest|Negotiate)\s+[^\s"',;<>]{8,}|(?<![\w-])eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?|(?<=:\/\/[^\s/:@]{0,256}:)[^\s/@]+(?=@)/gi;

const CLOSING: ReadonlyMap<string, string> = new Map([
  ['{', '}'],
  ['[', ']'],
]);

/** Masks the values of secret-sounding names in JSON, forms and headers, and everything that looks like a secret. */
export function maskSecrets(text: string): string {
  return maskNamed(text).replaceAll(FORMS, MASKED);
}

function maskNamed(text: string): string {
  let masked = '';
  let from = 0;
  for (const { 0: all, 1: name = '', index } of text.matchAll(NAME)) {
    if (index < from || !isSecretName(name)) continue;
    const start = index + all.length;
    const end = endOfValue(text, start);
    if (end === start || isMasked(text.slice(start, end))) continue;
    masked += text.slice(from, start) + MASKED;
    from = end;
  }
  return masked + text.slice(from);
}

const isMasked = (value: string): boolean => value === MASKED || value === JSON.stringify(MASKED);

function endOfValue(text: string, start: number): number {
  if (CLOSING.has(text[start] ?? '')) return endOfGroup(text, start);
  VALUE.lastIndex = start;
  return VALUE.exec(text) === null ? start : VALUE.lastIndex;
}

/** The position after the matching bracket, or the end of the text. Brackets within strings do not count. */
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
