import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readSourceTree } from '../architecture/source-tree.ts';

const page = readFileSync(new URL('../../docs/internals/glossary.md', import.meta.url), 'utf8');
const rows = page.split('\n').filter((line) => /^\| \*\*/.test(line));

/** The words that a row explains. A word in bold further on is explained there as well. */
const terms = rows.flatMap((row) => Array.from(row.matchAll(/\*\*(.+?)\*\*/g), ([, term]) => term as string));

const wordsOf = (className: string): string => className.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();

const isNamed = (className: string): boolean => terms.includes(wordsOf(className)) || rows.some((row) => row.includes(`\`${className}\``));

/** Errors are described in docs/reference/errors.md, or stay inside one room. */
const CLASS = /^export (?:abstract )?class (\w+)\b(?:<\w+>)?(?! extends (?:App)?Error\b)/gm;

const classes = [...readSourceTree('src/engine', 'src/services', 'src/ledger').values()].flatMap((text) =>
  Array.from(text.matchAll(CLASS), ([, name]) => name as string),
);

describe('docs/internals/glossary.md', () => {
  it('lists every term once', () => {
    expect(terms.length).toBeGreaterThan(100);
    expect(terms.filter((term, index) => terms.indexOf(term) !== index)).toEqual([]);
  });

  it('names every class of the engine, the services and the ledger', () => {
    expect(classes.length).toBeGreaterThan(50);
    expect(classes.filter((name) => !isNamed(name))).toEqual([]);
  });

  it('names no class that does not exist', () => {
    const sources = [...readSourceTree('src').values()].join('\n');
    const named = rows.flatMap((row) => Array.from(row.matchAll(/`((?:[A-Z][a-z]+)+)`/g), ([, name]) => name as string));
    expect(named.filter((name) => !sources.includes(`class ${name}`))).toEqual([]);
  });
});
