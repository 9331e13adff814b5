/** A real browser, from an npm package: no download, and no library of the system that a bare container lacks. */
import { mkdtempSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import packed, { inflate } from '@sparticuz/chromium';
import { type Browser, chromium } from 'playwright-core';

const BIN = new URL('../../node_modules/@sparticuz/chromium/bin/', import.meta.url);
/** The libraries of the system come first. */
const SYSTEM = ['/lib/x86_64-linux-gnu', '/usr/lib/x86_64-linux-gnu', '/lib64', '/usr/lib64'];

/** `--no-sandbox`, because tests may run as root in a container. The page comes from the same machine. */
const ARGS = ['--no-sandbox', '--disable-setuid-sandbox', '--no-zygote', '--disable-gpu', '--disable-dev-shm-usage'];

/** The fonts of the package. Without any font, the browser crashes when it draws the first text. */
const fontsIn = (folder: string): string =>
  `<?xml version="1.0"?><fontconfig><dir>${join(folder, 'fonts')}</dir><cachedir>${join(folder, 'font-cache')}</cachedir></fontconfig>`;

/** Unpacks the browser into a folder of the run and starts it. Close it. */
export async function openBrowser(): Promise<Browser> {
  const { folder, executablePath } = await unpacked();
  const fonts = join(folder, 'fonts-of-the-package.conf');
  await writeFile(fonts, fontsIn(folder));
  const libraries = [...SYSTEM, join(folder, 'al2023', 'lib')].join(':');
  const env = { ...(process.env as Record<string, string>), LD_LIBRARY_PATH: libraries, HOME: folder, FONTCONFIG_FILE: fonts };
  return chromium.launch({ executablePath, args: ARGS, env });
}

/** The package unpacks into the folder for temporary files, whose name it reads when it is called. */
async function unpacked(): Promise<{ folder: string; executablePath: string }> {
  const before = process.env.TMPDIR;
  const folder = mkdtempSync(join(tmpdir(), 'browser-'));
  process.env.TMPDIR = folder;
  try {
    const [executablePath] = await Promise.all([packed.executablePath(), inflate(new URL('al2023.tar.br', BIN).pathname)]);
    return { folder, executablePath };
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
}
