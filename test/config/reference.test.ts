import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { NOT_YET, SECTIONS_NOT_YET } from '../../src/config/assemble.ts';
import { QUEUE_SETTINGS, SECTIONS, type Setting, settingsOf } from '../../src/config/settings.ts';
import { showValue } from '../../src/config/values.ts';

const page = readFileSync(new URL('../../docs/reference/config.md', import.meta.url), 'utf8');

function sectionOf(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0];
  if (section === undefined) throw new Error(`There is no section "${heading}".`);
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replace(/^`(.*)`$/, '$1')),
  );
}

const rowsOf = (settings: Readonly<Record<string, Setting>>): string[][] =>
  Object.entries(settings).map(([key, { kind, default: value, help }]) => [key, showValue(value, kind), help]);

describe('docs/reference/config.md', () => {
  it.each(SECTIONS)('has every setting of [%s] with its default and meaning, and no other', (section) => {
    expect(sectionOf(`[${section}]`)).toEqual(rowsOf(settingsOf(section)));
  });

  it('has what may be said of a queue', () => {
    expect(sectionOf('[queues."name"]')).toEqual(rowsOf(QUEUE_SETTINGS));
  });

  it('names the settings that are not in use yet', () => {
    for (const [section, keys] of Object.entries(NOT_YET)) for (const key of keys) expect(page).toContain(`\`${section}.${key}\``);
    for (const section of SECTIONS_NOT_YET) expect(page).toContain(`\`[${section}]\``);
  });
});
