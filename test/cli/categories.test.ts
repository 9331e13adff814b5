import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CATEGORY_NAMES } from '../../src/core/governance/categories.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();

it('millrace categories shows the five categories as the configuration has them [AB-cat.01] [AB-accept.01]', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-categories-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'own.toml');
  writeFileSync(file, '[categories.planning]\nmax_attempts = 7\n');
  const { items } = await ask<{ items: { name: string }[] }>(['categories', '--config', file], {});
  expect(items.map(({ name }) => name)).toEqual([...CATEGORY_NAMES]);
  expect(items[2]).toEqual({
    ...{ name: 'planning', queue: 'q:planning', max_attempts: 7, base_delay: 'PT5S', max_delay: 'PT2M', key_window: 'P30D' },
    ...{ scheduling_allowed: false, required_members: [], capabilities: ['audit', 'artifacts', 'assignments', 'jobs'] },
  });
  const { stdout, code } = await run(['categories', '--config', file]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^notification +q:notifications +10 +PT5S +PT30M +P7D +yes +recipient, template +audit, jobs$/m);
  expect(stdout).toMatch(/^planning +q:planning +7 /m);
});

it('millrace jobs submit takes a category, and refuses one that does not exist [AB-cat.01]', async () => {
  const here = { database: ledger.db.url };
  const wrong = await run(['jobs', 'submit', 'scan', '--category', 'plannings'], here);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('planning')]);
  const unknown = await run(['jobs', 'submit', 'scan', '--category', 'planning'], here);
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('no worker has ever registered it')]);
});
