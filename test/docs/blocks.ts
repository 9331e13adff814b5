/** The commands and programs that a page of the documentation shows, as a reader would copy them. */
import { readFileSync } from 'node:fs';

export const ROOT = new URL('../../', import.meta.url);

export type Block = {
  /** The page and the line of the block. */
  place: string;
  language: string;
  code: string;
  how: How;
};

/** What the HTML comment above a block says about it. Without a comment, the block runs to its end. */
type How =
  | { kind: 'run' }
  | { kind: 'until stopped'; prints: string }
  | { kind: 'file'; name: string }
  | { kind: 'not run'; reason: string };

const BLOCK = /(?:^<!-- (.+) -->\n)?^```(sh|ts)\n([\s\S]*?)^```$/gm;

/** The shell and TypeScript blocks of a page, from top to bottom. */
export function blocksOf(page: string): Block[] {
  const text = readFileSync(new URL(page, ROOT), 'utf8');
  return [...text.matchAll(BLOCK)].map(({ 0: whole, 1: comment, 2: language = '', 3: code = '', index }) => {
    const line = text.slice(0, index + whole.indexOf('```')).split('\n').length;
    return { place: `${page}:${line}`, language, code, how: howOf(comment) };
  });
}

function howOf(comment: string | undefined): How {
  if (comment === undefined) return { kind: 'run' };
  const stopped = comment.match(/^runs until stopped(?:, prints: (.+))?$/);
  if (stopped !== null) return { kind: 'until stopped', prints: stopped[1] ?? '' };
  const [, kind, rest = ''] = comment.match(/^(file|not run): (.+)$/) ?? [];
  if (kind === 'file') return { kind, name: rest };
  if (kind === 'not run') return { kind, reason: rest };
  throw new Error(`A block has the comment "${comment}". Use "not run: …", "file: …" or "runs until stopped, prints: …".`);
}
