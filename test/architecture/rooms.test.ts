// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the strings are source text under test
import { describe, expect, test } from 'vitest';
import { findCycles } from './cycles.ts';
import {
  ALLOWED_ARROWS,
  checkArrows,
  checkFacade,
  checkFileCycles,
  checkFolderArrows,
  checkLengths,
  checkNames,
  checkRoomCycles,
  checkSqlStaysInTheLedger,
  FOLDER_ARROWS,
  SQL_BEFORE_A_LEDGER,
  unusedArrows,
} from './rooms.ts';
import { readSourceTree, type SourceTree } from './source-tree.ts';

function plant(files: Record<string, string>): SourceTree {
  return new Map(Object.entries(files));
}

describe('the sources as they stand', () => {
  const sources = readSourceTree('src');
  const everything = readSourceTree('src', 'test', 'bench', 'examples', 'scripts');

  test('were found', () => {
    expect(sources.size).toBeGreaterThan(0);
    expect(everything.has('test/architecture/rooms.test.ts')).toBe(true);
  });

  test.each([
    ['every arrow between rooms points the allowed way', checkArrows, sources],
    ['every arrow between folders of a room points the allowed way', checkFolderArrows, sources],
    ['the plan allows no arrow that no file uses', unusedArrows, sources],
    ['no file imports itself through others', checkFileCycles, sources],
    ['no room imports itself through others', checkRoomCycles, sources],
    ['SQL stays in the ledger', checkSqlStaysInTheLedger, sources],
    ['the facade only re-exports', checkFacade, sources],
    ['no file is a drawer', checkNames, everything],
    ['no file is longer than 300 lines', checkLengths, everything],
  ])('%s', (_, check, tree) => {
    expect(check(tree)).toEqual([]);
  });

  test('the plan itself has no cycle and names no unknown room', () => {
    expect(findCycles(new Map(Object.entries(ALLOWED_ARROWS)))).toEqual([]);
    const named = Object.values(ALLOWED_ARROWS).flat();
    expect(named.filter((room) => !Object.hasOwn(ALLOWED_ARROWS, room))).toEqual([]);
    for (const folders of Object.values(FOLDER_ARROWS)) {
      expect(findCycles(new Map(Object.entries(folders)))).toEqual([]);
      expect(Object.values(folders).flatMap((all) => all.filter((each) => !Object.hasOwn(folders, each)))).toEqual([]);
    }
  });

  test('an arrow between folders that points back is refused, and one that nobody uses is found', () => {
    const tree = plant({ 'src/ledger/driver/a.ts': `import '../jobs/b.ts';`, 'src/ledger/jobs/b.ts': '' });
    expect(checkFolderArrows(tree)).toEqual(['src/ledger/driver/a.ts: ledger/driver may not import ledger/jobs']);
    expect(unusedArrows(tree)).toContain('ledger/jobs -> ledger/driver');
  });

  test('every folder of a room with a plan is in it', () => {
    const folders = [...sources.keys()].map((path) => path.split('/')).filter((parts) => parts.length === 4);
    const unplanned = folders.filter(([, room = '', folder = '']) => {
      const plan = FOLDER_ARROWS[room];
      return plan !== undefined && !Object.hasOwn(plan, folder);
    });
    expect(unplanned).toEqual([]);
  });
});

describe('arrows', () => {
  const rooms = Object.keys(ALLOWED_ARROWS).filter((room) => room !== 'index.ts');

  test.each(rooms)('%s reaches the rooms the plan gives it and no other', (from) => {
    const reached = rooms.filter((to) => {
      const tree = plant({ [`src/${from}/a.ts`]: `import type { B } from '../${to}/b.ts';` });
      return checkArrows(tree).length === 0;
    });
    const planned = rooms.filter((to) => to === from || ALLOWED_ARROWS[from]?.includes(to));
    expect(reached).toEqual(planned);
  });

  test.each([
    ['a re-export that points back', 'src/core/a.ts', `export * from '../ledger/b.ts';`, 'core may not import ledger'],
    ['a dynamic import that points back', 'src/ledger/a.ts', `import('../engine/b.ts');`, 'ledger may not import engine'],
    ['a thread of another room', 'src/engine/a.ts', `new URL('../cli/b.ts', import.meta.url)`, 'may not import cli'],
    ['a folder below a room', 'src/http/queue/a.ts', `import '../../ledger/b.ts';`, 'http may not import ledger'],
    ['a builtin with I/O in core', 'src/core/a.ts', `import 'node:fs';`, 'core may not import node:fs'],
    ['a package in core', 'src/core/a.ts', `import 'croner';`, 'core may not import croner'],
    ['the core in the client', 'src/client/a.ts', `import '../core/b.ts';`, 'client may not import core'],
    ['a builtin in the client', 'src/client/a.ts', `import 'node:crypto';`, 'client may not import node:crypto'],
    ['a computed import in core', 'src/core/a.ts', `import(name);`, 'cannot name'],
    ['the facade from inside', 'src/engine/a.ts', `import '../index.ts';`, 'engine may not import index.ts'],
    ['a facade on a deeper room', 'src/index.ts', `export * from './ledger/a.ts';`, 'index.ts may not import ledger'],
    ['the package by its own name', 'src/cli/a.ts', `import 'millrace/testing';`, 'goes round the rooms'],
    ['a path out of the sources', 'src/cli/a.ts', `import '../../test/b.ts';`, 'leaves src/'],
    ['a room nobody planned', 'src/attic/a.ts', '', 'attic is not a room of the plan'],
    ['a file outside every room', 'src/loose.ts', '', 'loose.ts is not a room of the plan'],
  ])('%s is refused', (_, path, source, complaint) => {
    expect(checkArrows(plant({ [path]: source }))).toEqual([expect.stringContaining(complaint)]);
  });

  test.each([
    ['node:crypto in core', 'src/core/a.ts', `import { createHash } from 'node:crypto';`],
    ['a neighbour in the same room', 'src/core/a.ts', `import './b.ts';`],
    ['a package outside core', 'src/ledger/a.ts', `import 'pg';`],
    ['a computed import outside core', 'src/cli/a.ts', `import(name);`],
    ['the facade on the library', 'src/index.ts', `export { a } from './library/a.ts';`],
  ])('%s is allowed', (_, path, source) => {
    expect(checkArrows(plant({ [path]: source }))).toEqual([]);
  });
});

describe('cycles', () => {
  test('two files that import each other are refused, type imports included', () => {
    const tree = plant({
      'src/core/a.ts': `import type { B } from './b.ts';`,
      'src/core/b.ts': `import { a } from './a.ts';`,
    });
    expect(checkFileCycles(tree)).toEqual(['files import each other: src/core/a.ts, src/core/b.ts']);
  });

  test('a file that imports itself is refused', () => {
    expect(checkFileCycles(plant({ 'src/core/a.ts': `import './a.ts';` }))).toHaveLength(1);
  });

  test('a ring of rooms without a ring of files is refused', () => {
    const tree = plant({
      'src/core/a.ts': `import '../ledger/a.ts';`,
      'src/ledger/a.ts': '',
      'src/ledger/b.ts': `import '../engine/a.ts';`,
      'src/engine/a.ts': `import '../core/b.ts';`,
      'src/core/b.ts': '',
    });
    expect(checkFileCycles(tree)).toEqual([]);
    expect(checkRoomCycles(tree)).toEqual(['rooms import each other: core, engine, ledger']);
  });

  test('a diamond is no cycle, and separate cycles are told apart', () => {
    const graph = { a: ['b', 'c'], b: ['d'], c: ['d'], d: [], e: ['f'], f: ['g'], g: ['e', 'a'], h: ['h'] };
    expect(findCycles(new Map(Object.entries(graph)))).toEqual([['e', 'f', 'g'], ['h']]);
  });
});

describe('SQL', () => {
  test('every exception is one: a file that exists and speaks it', () => {
    const complaints = checkSqlStaysInTheLedger(
      new Map(
        [...readSourceTree('src')].map(([path, text]) =>
          SQL_BEFORE_A_LEDGER.includes(path) ? [path.replace('src/postgres/', 'src/engine/'), text] : [path, text],
        ),
      ),
    );
    expect(new Set(complaints.map((complaint) => complaint.split(':')[0]))).toEqual(
      new Set(SQL_BEFORE_A_LEDGER.map((path) => path.replace('src/postgres/', 'src/engine/'))),
    );
  });

  test.each([
    "'SELECT 1 FROM jobs'",
    '`\n  SELECT id\n  FROM ${table}`',
    "'INSERT INTO jobs VALUES (1)'",
    '"UPDATE jobs SET state = 1"',
    "'DELETE FROM jobs'",
    "'SELECT now()'",
    "'DROP DATABASE jobs'",
    '`WITH due AS (SELECT id FROM timers) TABLE due`',
    "'select id from jobs'",
    '`\n insert into jobs values (1)`',
    '`with due as (table timers) table due`',
    '`outer ${query("DELETE FROM jobs")}`',
  ])('%s is refused outside the ledger, but where there is no ledger yet', (literal) => {
    expect(checkSqlStaysInTheLedger(plant({ 'src/engine/a.ts': `run(${literal});` }))).toHaveLength(1);
    expect(checkSqlStaysInTheLedger(plant({ 'src/ledger/a.ts': `run(${literal});` }))).toEqual([]);
    expect(checkSqlStaysInTheLedger(plant({ 'src/postgres/a.ts': `run(${literal});` }))).toHaveLength(1);
    for (const path of SQL_BEFORE_A_LEDGER) expect(checkSqlStaysInTheLedger(plant({ [path]: `run(${literal});` }))).toEqual([]);
  });

  test.each([
    '// SELECT id FROM jobs',
    "const help = 'Select a job from the list, update it and set a tag.';",
    "import { insert } from './insert-job.ts';",
    "const state = 'SELECTED';",
  ])('%s is no SQL', (source) => {
    expect(checkSqlStaysInTheLedger(plant({ 'src/engine/a.ts': source }))).toEqual([]);
  });
});

describe('files', () => {
  test('a facade that does something is refused', () => {
    expect(checkFacade(plant({ 'src/index.ts': `export * from './core/a.ts';\nstart();` }))).toHaveLength(1);
  });

  test.each(['utils', 'helpers', 'types', 'interfaces', 'common', 'lib'])('a drawer called %s is refused', (name) => {
    const tree = plant({ [`src/core/${name}.ts`]: '', [`src/${name}/job.ts`]: '', 'src/core/job-types.ts': '' });
    expect(checkNames(tree)).toHaveLength(2);
  });

  test('a file of 301 lines is refused, one of 300 is not', () => {
    const lines = (count: number) => 'x;\n'.repeat(count);
    const found = checkLengths(plant({ 'src/core/a.ts': lines(300), 'src/core/b.ts': lines(301) }));
    expect(found).toEqual([expect.stringContaining('src/core/b.ts: 301 lines')]);
  });
});
