import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readSourceTree } from '../architecture/source-tree.ts';

const page = readFileSync(new URL('../../docs/reference/traces.md', import.meta.url), 'utf8');

/** The names in the table of spans, in the form that the sources have. */
const documented = new Set(
  page
    .slice(page.indexOf('## Spans'))
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name as string)),
);

/** What the sources start: a literal name, or a template whose changing parts are written in capitals on the page. */
function startedNames(): Set<string> {
  const names = [...readSourceTree('src').values()].flatMap((text) => [
    ...[...text.matchAll(/(?:tracer\.start|jobWork|keyWork)\(\s*(?:'([\w.]+)'|`([^`]+)`)/g)].map(
      ([, literal, template]) => literal ?? template ?? '',
    ),
    ...[...text.matchAll(/'(key\.(?:create|rotate|renew|revoke))'/g)].map(([, name]) => name ?? ''),
  ]);
  const spelled = new Map([
    ['run *', 'run TYPE'],
    ['request * *', 'request METHOD ROUTE'],
  ]);
  return new Set(names.map((name) => name.replaceAll(/\$\{[^}]*\}/g, '*')).map((name) => spelled.get(name) ?? name));
}

test('the page lists every span that the program starts, and no other', () => {
  expect([...documented].sort()).toEqual([...startedNames()].sort());
});
