import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CATEGORY_SETTINGS } from '../../src/config/category-settings.ts';
import { JOB_TYPE_SETTINGS, PROXY_SETTINGS, TENANT_SETTINGS } from '../../src/config/ingest-settings.ts';
import { QUEUE_SETTINGS } from '../../src/config/queue-settings.ts';
import { SECTIONS, type Setting, settingsOf } from '../../src/config/settings.ts';
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

  it.each([
    ['[job_types.name]', JOB_TYPE_SETTINGS],
    ['[proxies."name"]', PROXY_SETTINGS],
    ['[ingest.tenants.name]', TENANT_SETTINGS],
    ['[categories.name]', CATEGORY_SETTINGS],
  ])('has what may be said of %s', (heading, settings) => {
    expect(sectionOf(heading)).toEqual(rowsOf(settings));
  });

  it('has what may be said of a queue', () => {
    expect(sectionOf('[queues."name"]')).toEqual(rowsOf(QUEUE_SETTINGS));
  });
});
