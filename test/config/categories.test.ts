import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Config, loadConfig } from '../../src/config/load-config.ts';
import { CATEGORY_NAMES } from '../../src/core/governance/categories.ts';
import { categoriesWith } from '../../src/core/governance/category.ts';

function load(toml: string, environment: Record<string, string> = {}): Config {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-config-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'millrace.toml'), toml);
  return loadConfig({ folder, environment }).config;
}

describe('the sections of categories', () => {
  it('change what they name, and nothing else [AB-retry.12]', () => {
    const { categories } = load(`
[categories.notification]
queue = "q:mail"
max_attempts = 3
base_delay = "1s"
max_delay = "10m"
key_window = "PT36H"
poison_after = 4
[categories.planning]
assignment_grants = ["plan.assign", "__proto__"]`);
    const defaults = categoriesWith();
    expect(categories.get('notification')).toEqual({
      ...defaults.get('notification'),
      ...{ queue: 'q:mail', maxAttempts: 3, baseDelayMs: 1_000, maxDelayMs: 600_000, keyWindowMs: 129_600_000, poisonAfter: 4 },
    });
    expect(categories.get('planning')).toEqual({ ...defaults.get('planning'), assignmentGrants: ['plan.assign', '__proto__'] });
    for (const name of ['audit_enrichment', 'import_export', 'maintenance'] as const)
      expect(categories.get(name)).toEqual(defaults.get(name));
  });

  it('are five without a section too', () => {
    expect([...load('').categories.keys()]).toEqual([...CATEGORY_NAMES]);
  });

  it.each([
    ['[categories.notifications]', 'there is no category "notifications" (did you mean notification?)'],
    ['[categories."__proto__"]', 'there is no category "__proto__"'],
    ['[categories.planning]\nattempts = 1', 'categories."planning".attempts is not known'],
    ['[categories.planning]\nmax_attempts = 0', 'categories."planning".max_attempts must'],
    ['[categories.planning]\nbase_delay = 3.5', 'categories."planning".base_delay'],
    ['[categories.planning]\nbase_delay = "3m"', 'categories.planning.max_delay must not be less than categories.planning.base_delay'],
    ['[categories.planning]\nqueue = "q:deadletter"', 'categories.planning.queue must not be q:deadletter'],
    ['[categories.planning]\nqueue = "Q MAIL"', 'categories.planning.queue must be 1 to 100 characters'],
    ['[categories.maintenance]\nassignment_grants = ["x"]', 'categories.maintenance.assignment_grants can be set for planning only'],
    ['categories = 1', '[categories] must be a section'],
  ])('%s is refused with a sentence', (toml, sentence) => {
    expect(() => load(toml)).toThrow(sentence);
  });

  it('cannot be set in the environment, and say so', () => {
    expect(() => load('', { MILLRACE_CATEGORIES_PLANNING_QUEUE: 'q:x' })).toThrow('configure categories in the file, as [categories.name]');
  });
});
