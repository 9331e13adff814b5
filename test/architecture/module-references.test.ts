// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the strings are source text under test
import { describe, expect, test } from 'vitest';
import { findModuleReferences, onlyReExports } from './module-references.ts';
import { lex } from './source-lexer.ts';

function specifiersIn(source: string): (string | null)[] {
  return findModuleReferences(lex(source)).map(({ specifier }) => specifier);
}

describe('what counts as a reference to a module', () => {
  test.each([
    ['a default import', `import a from './a.ts';`],
    ['a namespace import', `import * as a from "./a.ts"`],
    ['a list over several lines', `import {\n  b,\n  type c as d,\n} from './a.ts';`],
    ['a default beside a list', `import b, { c } from './a.ts';`],
    ['a type import', `import type { B } from './a.ts';`],
    ['an import for its effect', `import './a.ts';`],
    ['an import with attributes', `import a from './a.ts' with { type: 'json' };`],
    ['a binding called from', `import from from './a.ts';`],
    ['a listed binding called from', `import { from } from './a.ts';`],
    ['a quoted export name', `import { 'b-c' as d } from './a.ts';`],
    ['a comment inside the clause', `import { b /* from './no.ts' */ } from // './no.ts'\n './a.ts';`],
    ['no space at all', `import{b}from'./a.ts'`],
    ['a star re-export', `export * from './a.ts';`],
    ['a named star re-export', `export * as a from './a.ts';`],
    ['a list re-export', `export { b, default as c } from './a.ts';`],
    ['a type re-export', `export type { B } from './a.ts';`],
    ['a dynamic import', `const a = await import('./a.ts');`],
    ['a dynamic import of a constant template', 'await import(`./a.ts`);'],
    ['a dynamic import with options', `await import('./a.ts', { with: { type: 'json' } });`],
    ['an import type expression', `type A = typeof import('./a.ts');`],
    ['a dynamic import inside a template', 'const s = `x ${await import("./a.ts")} y`;'],
    ['a thread', `new Worker(new URL('./a.ts', import.meta.url));`],
    ['an import after a regular expression with quotes', `const r = /['"\`]/;\nimport './a.ts';`],
    ['an import after a regular expression class with a slash', `const r = /[/'"]/g;\nimport './a.ts';`],
    ['an import after a division', `const q = a / b; import './a.ts'; const p = c / d;`],
    ['an import after a division by a bracketed term', `const q = (a) / 2; import './a.ts'; const p = x[0] / 2;`],
    ['an import after nested templates', 'const t = `a ${`b ${"}"} c`} d`;\nimport "./a.ts";'],
    ['an import after an escaped quote', `const t = 'it\\'s';\nimport './a.ts';`],
    ['an import after a hashbang', `#!/usr/bin/env node's\nimport './a.ts';`],
  ])('%s is found once', (_, source) => {
    expect(specifiersIn(source)).toEqual(['./a.ts']);
  });

  test.each([
    ['a line comment', `// import './a.ts';`],
    ['a block comment', `/* import './a.ts';\nexport * from './a.ts' */`],
    ['a string', `const s = "import './a.ts'";`],
    ['a template', "const s = `import './a.ts'; export * from './b.ts'`;"],
    ['a regular expression', `const r = /import '.\\/a.ts'/;`],
    ['import.meta', `const u = import.meta.url; const v = './a.ts';`],
    ['a member called import', `ledger.import('./a.ts'); ledger?.export('./b.ts');`],
    ['a property called import', `const o = { import: './a.ts', export: './b.ts' };`],
    ['a local export list', `export { a, b };\nconst from = './a.ts';`],
    ['an exported value', `export const a = './a.ts';`],
    ['an exported type', `export type A = { from: './a.ts' };`],
    ['Array.from', `export function f() { return Array.from('./a.ts'); }`],
    ['a URL that is not code', `new URL('https://example.com/a.ts'); new URL('./0001.sql', import.meta.url);`],
    ['a word that is a member of every object', `const o = constructor; toString();`],
  ])('%s is none', (_, source) => {
    expect(specifiersIn(source)).toEqual([]);
  });

  test('several references keep their order and kind', () => {
    const source = `import a from './a.ts';\nexport { b } from './b.ts';\nimport('./c.ts');\nnew URL('./d.ts', import.meta.url);`;
    expect(findModuleReferences(lex(source))).toEqual([
      { kind: 'import', specifier: './a.ts' },
      { kind: 'export', specifier: './b.ts' },
      { kind: 'dynamic', specifier: './c.ts' },
      { kind: 'thread', specifier: './d.ts' },
    ]);
  });

  test.each(['import(name)', "import('./' + name)", 'import(`./${name}.ts`)'])('%s has no specifier', (source) => {
    expect(specifiersIn(source)).toEqual([null]);
  });

  test('source with a brace too many is refused rather than half read', () => {
    expect(() => lex(`} import './a.ts';`)).toThrow('unbalanced');
  });
});

describe('a file of re-exports only', () => {
  test.each([
    '',
    '// a comment\n',
    `export * from './a.ts';`,
    `export { a } from './a.ts'\nexport type { B } from './b.ts';\nexport * as c from './c.ts';`,
    `export { default as a } from './a.json' with { type: 'json' };`,
  ])('%j is one', (source) => {
    expect(onlyReExports(lex(source))).toBe(true);
  });

  test.each([
    `import './a.ts';`,
    `import { a } from './a.ts';\nexport { a };`,
    `export const a = 1;`,
    `export * from './a.ts';\nstart();`,
    `start();\nexport * from './a.ts';`,
    `export type A = string;`,
    `export { a };\nexport * from './a.ts';`,
  ])('%j is not one', (source) => {
    expect(onlyReExports(lex(source))).toBe(false);
  });
});
