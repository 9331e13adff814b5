import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { KINDS, WORK_KINDS } from '../../src/core/execution/kinds.ts';

const text = readFileSync(new URL('../../docs/guides/work-kinds.md', import.meta.url), 'utf8');

it('docs/guides/work-kinds.md has every kind with its numbers, in order', () => {
  const rows = sectionOf('The list')
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  const cells = rows.map((row) => row.split('|').slice(1, 7));
  expect(cells.map((each) => each.map((cell) => cell.trim().replaceAll('`', '')))).toEqual(
    WORK_KINDS.map((kind) => {
      const { durationMs, shouldFail, payloadKb, expected, types } = KINDS[kind];
      const duration = durationMs === 'over_max_runtime' ? 'max_runtime + 1000' : durationMs;
      const taking = types.length === 1 ? types[0] : 'any';
      return [kind, `${duration} ms`, `${shouldFail}`, `${payloadKb} KB`, expected, taking];
    }),
  );
});

it('docs/guides/work-kinds.md has every code with which simulated work fails', () => {
  const sources = ['execution.ts', 'execution-output.ts'].map((name) =>
    readFileSync(new URL(`../../src/handlers/${name}`, import.meta.url), 'utf8'),
  );
  const codes = sources.join().matchAll(/code: '([A-Z_]+)'/g);
  const documented = [...sectionOf('What a job leaves behind').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code);
  expect(new Set(documented)).toEqual(new Set(['RFA_EXEC_TIMEOUT', ...[...codes].map(([, code]) => code)]));
});

function sectionOf(heading: string): string {
  return text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] as string;
}
