import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migratedDatabase } from '../ledger/test-database.ts';
import { openBrowser } from './browser.ts';

const SERVER = fileURLToPath(new URL('../../examples/14-progress-in-a-browser/server.ts', import.meta.url));

let browser: Browser;
let child: ChildProcess;
let address: string;

beforeAll(async () => {
  const database = await migratedDatabase();
  const env = { ...process.env, DATABASE_URL: database.url, PORT: '0', NODE_NO_WARNINGS: '1' };
  child = spawn(process.execPath, [SERVER], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line')) as [string];
  address = line.replace('open ', '');
  browser = await openBrowser();
  return async () => {
    child.kill('SIGTERM');
    await once(child, 'exit');
    database.drop();
  };
});

afterAll(() => browser?.close());

test('14-progress-in-a-browser: a page shows the progress and the lines of a job while it runs, to its end', async () => {
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('dialog', (dialog) => {
    problems.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(address);
  expect(await page.textContent('#state')).toBe('no job yet');
  // The values that the bar takes, as the page paints them.
  await page.evaluate(`
    window.values = [];
    new MutationObserver(() => window.values.push(document.querySelector('progress').value))
      .observe(document.querySelector('progress'), { attributes: true });`);
  await page.fill('input', '<img src=x onerror=alert(1)>');
  await page.click('button');
  await page.locator('#state', { hasText: 'completed' }).waitFor();
  const values = (await page.evaluate('window.values')) as number[];
  expect(values.filter((value) => value > 0 && value < 100).length).toBeGreaterThan(2);
  expect(values).toEqual(values.toSorted((a, b) => a - b));
  expect(values.at(-1)).toBe(100);
  expect(await page.textContent('#message')).toBe('frame 40 of 40');
  const lines = ['rendering <img src=x onerror=alert(1)>', ...[10, 20, 30, 40].map((frame) => `frame ${frame} is ready`)];
  expect(await page.locator('#lines li').allTextContents()).toEqual(lines);
  expect(problems).toEqual([]);
  await page.close();
});

test('14-progress-in-a-browser: two pages show their own jobs, and one that leaves does not disturb the other', async () => {
  const [first, second] = [await browser.newPage(), await browser.newPage()];
  for (const page of [first, second]) await page.goto(address);
  await first.fill('input', 'one');
  await second.fill('input', 'two');
  await first.click('button');
  await second.click('button');
  expect(await first.locator('#lines li').first().textContent()).toBe('rendering one');
  await first.close();
  await second.locator('#state', { hasText: 'completed' }).waitFor();
  expect(await second.locator('#lines li').first().textContent()).toBe('rendering two');
  expect((await fetch(`${address}jobs/00000000-0000-4000-8000-00000000000f/events`)).status).toBe(404);
});
