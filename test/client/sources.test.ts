import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { clientTypes, type OpenApiDocument } from '../../scripts/client-types.ts';
import { useQueue } from '../http/queue-fixture.ts';

const CLIENT = new URL('../../src/client/', import.meta.url);
const read = (file: string) => readFileSync(new URL(file, CLIENT), 'utf8');
const sources = readdirSync(CLIENT).map((file) => [file, read(file)] as const);

const queue = useQueue();

test('the client takes nothing from Node, npm or the rest of the program', () => {
  expect(sources.length).toBeGreaterThan(4);
  const imports = sources.flatMap(([file, text]) =>
    [...text.matchAll(/(?<!['"])(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)].map(([, specifier]) => `${file}: ${specifier}`),
  );
  expect(imports.length).toBeGreaterThan(4);
  expect(imports.filter((each) => !/: \.\/[a-z-]+\.ts$/.test(each))).toEqual([]);
});

test('the client uses no global that a browser or an edge runtime lacks', () => {
  const foreign = /\b(?:process|Buffer|require|global|__dirname|setImmediate|NodeJS)\b(?!['"`])/;
  const code = (text: string) => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*|'[^']*'|`[^`]*`/g, '');
  expect(sources.filter(([, text]) => foreign.test(code(text))).map(([file]) => file)).toEqual([]);
});

test('the generated types are those of the document that the server serves', async () => {
  const document = (await (await fetch(`${queue.url}/openapi.json`)).json()) as OpenApiDocument;
  expect(read('api-types.ts'), 'The types are out of date: run "npm run types".').toBe(clientTypes(document, 'queue'));
});

test('editors show the meaning of every type and member', () => {
  const lines = read('api-types.ts').split('\n');
  const declares = (line: string) => /^export type |^ +(?:\w+|'[^']+')\??: /.test(line);
  const declared = lines.flatMap((line, index) => (declares(line) ? [{ line, above: lines[index - 1] ?? '' }] : []));
  expect(declared.length).toBeGreaterThan(300);
  expect(declared.filter(({ above }) => !/^ *\/\*\* .*\w.* \*\/$/.test(above)).map(({ line }) => line)).toEqual([]);
  expect(declared).toContainEqual({ line: '  failure: FailureInfo;', above: '  /** The newest failure. */' });
});
