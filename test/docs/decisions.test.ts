import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const folder = new URL('../../docs/internals/decisions/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, folder), 'utf8');

describe('docs/internals/decisions', () => {
  it('lists every decision', () => {
    const index = read('README.md');
    const files = readdirSync(folder).filter((name) => /^\d{4}-.+\.md$/.test(name));
    for (const name of files) expect(index).toContain(`](${name})`);
  });

  it('gives an answer to every gap found in the contract of the execution API, and leaves none open [FR-20.01]', () => {
    const page = read('0012-execution-api.md');
    const rows = page.split('\n').filter((line) => line.startsWith('| '));
    const [head, ...gaps] = rows.map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
    expect(head).toEqual(['gap', 'answer', 'why']);
    expect(gaps.length).toBeGreaterThan(20);
    for (const [gap, answer] of gaps) {
      expect(gap).toMatch(/\w/);
      expect(answer).toMatch(/\w/);
      expect(answer).not.toMatch(/\b(?:open|undecided|later|to be decided)\b/i);
    }
  });
});
