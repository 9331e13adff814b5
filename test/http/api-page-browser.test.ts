import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { useBrowser } from '../browser.ts';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();
const browser = useBrowser();

const PHONE = { width: 375, height: 812 };
const DESK = { width: 1280, height: 800 };

type Opened = { page: Page; errors: string[] };

/** Opens the page with its operations, and collects what the browser refuses or fails to run. */
async function open(viewport: typeof PHONE): Promise<Opened> {
  const isMobile = viewport === PHONE;
  const page = await browser.current.newPage({ viewport, isMobile, hasTouch: isMobile });
  const errors: string[] = [];
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  page.on('pageerror', (error) => errors.push(error.message));
  await page.goto(`${server.url}/docs`);
  await page.locator('.opblock').first().waitFor();
  return { page, errors };
}

/** Opens an operation and the schemas of its responses. Returns the operation. */
async function openOperation(page: Page, operationId: string) {
  const operation = page.locator(`.opblock[id$="-${operationId}"]`);
  await operation.locator('.opblock-summary-control').click();
  await operation.locator('.responses-table .tab button', { hasText: 'Schema' }).first().click();
  await operation.locator('.json-schema-2020-12').first().waitFor();
  return operation;
}

/** How many pixels the page is wider than the window. */
const overhang = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

describe.each([
  ['a phone', PHONE],
  ['a desk', DESK],
])('the API page on %s', (_where, viewport) => {
  it('never scrolls sideways, with operations, schemas and the form for the key open', async () => {
    const { page, errors } = await open(viewport);
    expect(await overhang(page)).toBe(0);
    for (const operationId of ['submitJob', 'redeliver']) {
      const operation = await openOperation(page, operationId);
      expect([operationId, await overhang(page)]).toEqual([operationId, 0]);
      const cell = await operation.locator('tbody td.response-col_description').first().boundingBox();
      expect(cell?.width).toBeGreaterThan(viewport.width / 2);
    }
    await page.locator('.models .json-schema-2020-12-expand-deep-button').nth(3).click();
    expect(await overhang(page)).toBe(0);
    await page.locator('.btn.authorize').first().click();
    const form = await page.locator('.modal-ux').boundingBox();
    expect(form?.width).toBeLessThanOrEqual(viewport.width);
    expect(await overhang(page)).toBe(0);
    expect(errors).toEqual([]);
    await page.close();
  });
});

it('the API page shows the meaning of each member of a response without another click', async () => {
  const { page } = await open(PHONE);
  const operation = await openOperation(page, 'getFailure');
  for (const text of ['Why a job failed.', 'How many attempts the job has had.', 'The newest failure.']) {
    await operation.getByText(text).first().waitFor({ state: 'visible' });
  }
  await page.close();
});

it('the controls of the API page are large enough to read and touch on a phone', async () => {
  const { page } = await open(PHONE);
  await openOperation(page, 'listJobs');
  const controls = await page.locator('input:visible, select:visible, textarea:visible, .btn:visible').evaluateAll((all) =>
    all.map((control) => ({
      name: `${control.tagName} ${control.className}`,
      isText: control.tagName !== 'BUTTON',
      height: control.getBoundingClientRect().height,
      fontSize: Number.parseFloat(getComputedStyle(control).fontSize),
    })),
  );
  expect(controls.length).toBeGreaterThan(8);
  expect(controls.filter(({ height }) => height < 40)).toEqual([]);
  // A phone zooms in when a smaller field gets the focus.
  expect(controls.filter(({ isText, fontSize }) => isText && fontSize < 16)).toEqual([]);
  await page.close();
});
