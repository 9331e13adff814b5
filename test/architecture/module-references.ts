import type { Token } from './source-lexer.ts';

/**
 * One way in which a file names another module. `thread` is `new URL('./x.ts', import.meta.url)`: it loads code too,
 * but in another thread, so it cannot close an import cycle. A computed `import(expression)` has no specifier.
 */
export type ModuleReference = { kind: 'import' | 'export' | 'dynamic' | 'thread'; specifier: string | null };

export function findModuleReferences(tokens: readonly Token[]): ModuleReference[] {
  const found: ModuleReference[] = [];
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== 'word' || isMark(tokens[at - 1], '.')) continue;
    const reference = readers[token.text]?.(tokens, at);
    if (reference) found.push(reference);
  }
  return found;
}

/** True when a file holds nothing but `export ... from '...'`. */
export function onlyReExports(tokens: readonly Token[]): boolean {
  let at = 0;
  while (at < tokens.length) {
    const clause = tokens[at]?.text === 'export' && opensExportList(tokens, at) ? readClause(tokens, at + 1) : null;
    if (!clause) return false;
    at = isMark(tokens[clause.end], ';') ? clause.end + 1 : clause.end;
  }
  return true;
}

type Reader = (tokens: readonly Token[], at: number) => ModuleReference | null;

const readers: Record<string, Reader | undefined> = Object.assign(Object.create(null), {
  import: readImport,
  export: readExport,
  URL: readThread,
} satisfies Record<string, Reader>);

function readImport(tokens: readonly Token[], at: number): ModuleReference | null {
  const next = tokens[at + 1];
  if (isMark(next, '(')) {
    const argument = tokens[at + 2];
    const isWhole = isMark(tokens[at + 3], ')') || isMark(tokens[at + 3], ',');
    return { kind: 'dynamic', specifier: isWhole && isLiteral(argument) ? argument.text : null };
  }
  const clause = readClause(tokens, at + 1);
  return clause && { kind: 'import', specifier: clause.specifier };
}

function readExport(tokens: readonly Token[], at: number): ModuleReference | null {
  const clause = opensExportList(tokens, at) ? readClause(tokens, at + 1) : null;
  return clause && { kind: 'export', specifier: clause.specifier };
}

function readThread(tokens: readonly Token[], at: number): ModuleReference | null {
  const argument = tokens[at + 2];
  const isCode = isMark(tokens[at + 1], '(') && isLiteral(argument) && /^\.\.?\/.*\.[cm]?[jt]s$/.test(argument.text);
  return isCode ? { kind: 'thread', specifier: argument.text } : null;
}

function opensExportList(tokens: readonly Token[], at: number): boolean {
  const next = tokens[at + 1]?.text === 'type' ? tokens[at + 2] : tokens[at + 1];
  return isMark(next, '{') || isMark(next, '*');
}

/** Reads `{ a, type b as c } from 'x'`, `* as n from 'x'`, `d, { e } from 'x'` or a bare `'x'`. */
function readClause(tokens: readonly Token[], start: number): { specifier: string; end: number } | null {
  let isInBraces = false;
  for (let at = start; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (token === undefined) return null;
    const endsClause = at === start || tokens[at - 1]?.text === 'from';
    if (!isInBraces && token.kind === 'string') {
      return endsClause ? { specifier: token.text, end: endOfAttributes(tokens, at + 1) } : null;
    }
    if (isMark(token, '{')) isInBraces = true;
    else if (isMark(token, '}')) {
      isInBraces = false;
      if (tokens[at + 1]?.text !== 'from') return null;
    } else if (!isMark(token, ',') && !isMark(token, '*') && token.kind !== 'word' && token.kind !== 'string') return null;
  }
  return null;
}

function endOfAttributes(tokens: readonly Token[], at: number): number {
  if (tokens[at]?.text !== 'with' || !isMark(tokens[at + 1], '{')) return at;
  const close = tokens.findIndex((token, index) => index > at && isMark(token, '}'));
  return close === -1 ? at : close + 1;
}

function isLiteral(token: Token | undefined): token is Token {
  return token?.kind === 'string' || (token?.kind === 'template' && token.isConstant);
}

function isMark(token: Token | undefined, text: string): boolean {
  return token?.kind === 'mark' && token.text === text;
}
