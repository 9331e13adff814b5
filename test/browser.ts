/** A real browser for tests: the Chromium of an npm package, so that nothing else has to be installed. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';

/** It unpacks into its TMPDIR. A separate process has a TMPDIR of its own. */
const UNPACK = fileURLToPath(new URL('./unpack-browser.ts', import.meta.url));

/** Opens the browser once for all tests of a file. */
export function useBrowser(): { readonly current: Browser } {
  let browser: Browser | undefined;
  let folder: string | undefined;
  beforeAll(async () => {
    const args = ['--no-sandbox', '--disable-dev-shm-usage'];
    if (process.platform !== 'linux' || process.arch !== 'x64') {
      browser = await chromium.launch({ channel: 'chrome', args });
      return;
    }
    folder = await mkdtemp(join(tmpdir(), 'browser-'));
    const env = { ...process.env, TMPDIR: folder };
    const { stdout } = await promisify(execFile)(process.execPath, [UNPACK], { env });
    const libraries = [process.env.LD_LIBRARY_PATH, join(folder, 'al2023', 'lib')].filter((path) => path !== undefined).join(':');
    // Without a font, Chromium crashes at the first text.
    const fonts = join(folder, 'fonts.conf');
    await writeFile(fonts, `<fontconfig><dir>${join(folder, 'fonts')}</dir><cachedir>${folder}</cachedir></fontconfig>`);
    const surroundings = { ...env, LD_LIBRARY_PATH: libraries, FONTCONFIG_FILE: fonts };
    browser = await chromium.launch({ executablePath: stdout.trim(), args, env: surroundings });
  });
  afterAll(async () => {
    await browser?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });
  return {
    get current() {
      if (browser === undefined) throw new Error('The browser is open only while tests run.');
      return browser;
    },
  };
}
