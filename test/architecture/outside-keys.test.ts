import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findOutsideKeys } from './outside-keys.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Why each of these may stand. */
const ALLOWED: ReadonlyMap<string, string> = new Map([
  ['src/core/dictionary.ts made[name]', 'the object has no prototype'],
  ['src/core/dictionary.ts table[name]', 'looked up with Object.hasOwn'],
  ['src/core/bounded-text.ts kept[name]', 'a dictionary'],
  ['src/http/queue/read-submission.ts renamed[core ?? name]', 'a dictionary'],
  ['src/http/execution/report-formats.ts counts[name]', 'a dictionary'],
  ['src/core/canonical-json.ts (value as Record<string, unknown>)[name]', 'reads the own members of the value'],
  ['src/cli/output.ts this[key]', 'JSON.stringify names the own members of the object'],
  ['src/core/duration.ts UNIT_MS[short[2] as ShortUnit]', 'the expression before it matches only units'],
  ['src/config/values.ts UNITS[parts[2]?.toUpperCase() as keyof typeof UNITS]', 'matches only units'],
  ['src/http/shared/query-values.ts query[reader.name]', 'the names come from the schema of the route'],
  ['src/ledger/jobs/submit-jobs.ts Object.assign', 'copies members that the program names'],
]);

test('no name from outside becomes the key of a plain object', () => {
  const found = findOutsideKeys({ folder: ROOT, config: 'tsconfig.json', under: 'src/' });
  const isAllowed = ({ file, text }: { file: string; text: string }) => ALLOWED.has(`${file} ${text}`);
  // Use a Map, or dictionary() and lookUp() from core/dictionary.ts.
  expect(found.filter((each) => !isAllowed(each)).map(({ file, line, text }) => `${file}:${line} ${text}`)).toEqual([]);
  const there = new Set(found.map(({ file, text }) => `${file} ${text}`));
  expect([...ALLOWED.keys()].filter((each) => !there.has(each))).toEqual([]);
});

const SAMPLE = `
const table: Record<string, number> = {};
export function wrong<Name extends string>(name: string, generic: Name, either: string | number, value: object) {
  table[name] = 1;
  table[generic] ??= 2;
  table[either] = 3;
  const cast = table[name as 'a'];
  const there = name in table;
  for (const each in value) console.log(each);
  return [cast, there, Object.assign({}, value)];
}
export function right(word: 'a' | 'b', index: number, list: number[], map: Map<string, number>, name: string) {
  return [table[word], list[index], map.get(name), 'a' in table, { [name]: 1 }, Object.fromEntries([[name, 1]])];
}`;

test('the rule finds every form of the mistake, and nothing else', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-keys-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'sample.ts'), SAMPLE);
  writeFileSync(join(folder, 'tsconfig.json'), '{ "compilerOptions": { "strict": true, "target": "esnext" } }');
  const found = findOutsideKeys({ folder, config: 'tsconfig.json', under: 'sample' });
  expect(found.map(({ text }) => text)).toEqual([
    ...['table[name]', 'table[generic]', 'table[either]', "table[name as 'a']", 'name in table'],
    ...['for (const each in value) console.log(each);', 'Object.assign'],
  ]);
});
