// Cuts TypeScript into just enough tokens to find module specifiers and string literals. Types are not stripped first:
// an `import type` couples two rooms as much as any other import.

export type Token = {
  kind: 'word' | 'string' | 'template' | 'regex' | 'mark';
  /** What stands between the quotes for literals; each `${...}` of a template reads as a lone `$`. */
  text: string;
  /** A template with no `${...}` can be read as a string. */
  isConstant: boolean;
};

// After these words a slash opens a regular expression; after any other word it divides.
const WORDS_BEFORE_REGEX = new Set('return typeof case in of delete void throw new instanceof await yield do else'.split(' '));
const SPACE = /\s+/y;
const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const WORD = /[\p{ID_Start}\p{Nd}_$#][\p{ID_Continue}$\u200c\u200d]*/uy;
const QUOTED = /'((?:[^'\\\n]|\\[\s\S])*)'|"((?:[^"\\\n]|\\[\s\S])*)"/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const HASHBANG = /^#![^\n]*/;

export function lex(source: string): Token[] {
  const tokens: Token[] = [];
  const end = lexUntilBrace({ source: source.replace(HASHBANG, ''), at: 0, tokens });
  if (end.closedByBrace) throw new Error('unbalanced } in source');
  return tokens;
}

type Cursor = { source: string; at: number; tokens: Token[] };
type End = { at: number; closedByBrace: boolean };

/** Reads to the end, or to the brace that closes the `${` this call was made for. */
function lexUntilBrace({ source, at, tokens }: Cursor): End {
  let depth = 0;
  while (at < source.length) {
    const skipped = match(SPACE, source, at) ?? match(COMMENT, source, at);
    if (skipped) {
      at += skipped[0].length;
      continue;
    }
    const char = source[at];
    if (char === '}' && depth === 0) return { at: at + 1, closedByBrace: true };
    if (char === '{') depth += 1;
    if (char === '}') depth -= 1;
    at = char === '`' ? lexTemplate({ source, at: at + 1, tokens }) : lexPlain({ source, at, tokens });
  }
  return { at, closedByBrace: false };
}

function lexPlain({ source, at, tokens }: Cursor): number {
  const quoted = match(QUOTED, source, at);
  if (quoted) return push(tokens, 'string', quoted[1] ?? quoted[2] ?? '', at + quoted[0].length);
  const word = match(WORD, source, at);
  if (word) return push(tokens, 'word', word[0], at + word[0].length);
  const regex = source[at] === '/' && opensRegex(tokens.at(-1)) ? match(REGEX, source, at) : null;
  if (regex) return push(tokens, 'regex', regex[0], at + regex[0].length);
  return push(tokens, 'mark', source[at] ?? '', at + 1);
}

/** Tokens inside `${...}` come before the template's own token, so the token before a slash is the right one. */
function lexTemplate({ source, at, tokens }: Cursor): number {
  let text = '';
  let isConstant = true;
  while (at < source.length && source[at] !== '`') {
    if (source.startsWith('${', at)) {
      isConstant = false;
      text += '$';
      // A mark keeps what precedes the template from being read together with what the placeholder holds.
      tokens.push({ kind: 'mark', text: '${', isConstant: true });
      at = lexUntilBrace({ source, at: at + 2, tokens }).at;
      continue;
    }
    const length = source[at] === '\\' ? 2 : 1;
    text += source.slice(at, at + length);
    at += length;
  }
  tokens.push({ kind: 'template', text, isConstant });
  return at + 1;
}

function opensRegex(previous: Token | undefined): boolean {
  if (previous === undefined) return true;
  if (previous.kind === 'word') return WORDS_BEFORE_REGEX.has(previous.text);
  return previous.kind === 'mark' && !')]}'.includes(previous.text);
}

function push(tokens: Token[], kind: Token['kind'], text: string, end: number): number {
  tokens.push({ kind, text, isConstant: true });
  return end;
}

function match(pattern: RegExp, source: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(source);
}
