import { chmod, chown, lstat, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chooseAccount } from '../../src/postgres/account.ts';
import { openEmbedded } from '../../src/postgres/embedded.ts';
import { copyWithoutLinks, makeReadOnly } from './package-copy.ts';
import { isRoot, makeScratch, query, type Scratch, silent } from './scratch.ts';

let scratch: Scratch;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

const PASSWD = [
  'root:x:0:0:root:/root:/bin/bash',
  'daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin',
  'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
  'postgres:x:26:26:PostgreSQL:/var/lib/pgsql:/bin/bash',
];
const accountsOf = (...lines: string[]) => ({ isRoot: true, passwd: () => lines.join('\n') });

describe('the account that runs the server', () => {
  const nowhere = { data: '/nowhere', home: '/nowhere' };

  it('is the own one when the program does not run as root', () => {
    expect(chooseAccount({ isRoot: false, passwd: () => PASSWD.join('\n') }, nowhere)).toBeNull();
  });

  it('is "postgres", else "nobody", else any unprivileged account', () => {
    expect(chooseAccount(accountsOf(...PASSWD), nowhere)).toEqual({ name: 'postgres', uid: 26, gid: 26 });
    expect(chooseAccount(accountsOf(...PASSWD.slice(0, 3)), nowhere)).toMatchObject({ name: 'nobody' });
    expect(chooseAccount(accountsOf(...PASSWD.slice(0, 2)), nowhere)).toMatchObject({ name: 'daemon' });
    expect(() => chooseAccount(accountsOf(...PASSWD.slice(0, 1)), nowhere)).toThrow(
      expect.objectContaining({ code: 'EMBEDDED_UNSUPPORTED_PLATFORM' }),
    );
  });

  it('runs the server for real where no postgres user exists', async () => {
    const home = scratch.fresh();
    const machine = isRoot ? { accounts: accountsOf(...PASSWD.slice(0, 3)) } : {};
    const server = await openEmbedded({ home, onNotice: silent, machine });
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect((await stat(join(home, 'postgres'))).uid).toBe(isRoot ? 65534 : process.getuid?.());
    await server.close();
    // The owner of existing data decides from then on, whatever accounts the machine has.
    const again = await openEmbedded({ home, onNotice: silent });
    await again.close();
  });

  it('is the owner of the home when root works in the home of another user', async () => {
    const home = scratch.fresh();
    await mkdir(home, { mode: 0o700 });
    const uid = isRoot ? 65534 : process.getuid!();
    if (isRoot) await chown(home, uid, uid);
    const server = await openEmbedded({ home, onNotice: silent });
    await server.close();
    for (const name of ['postgres', 'postgres-password', 'postgres-port', 'postgres-users', 'postgres.lock', 'postgres.log']) {
      expect((await stat(join(home, name))).uid, name).toBe(uid);
    }
  });
});

describe('a place the account cannot reach', () => {
  it('is left for a shelter outside, remembered in the home, with one notice', async () => {
    const closed = scratch.fresh('closed');
    await mkdir(closed, { mode: 0o700 });
    const native = await copyWithoutLinks(join(closed, 'package'));
    const shelter = scratch.fresh('shelter');
    const home = join(closed, 'home');
    const notices: string[] = [];
    const machine = { shelters: [shelter], native: () => native };
    const open = () => openEmbedded({ home, onNotice: (sentence) => notices.push(sentence), machine });

    const server = await open();
    await query(server.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await server.close();
    const again = await open();
    expect(await query(again.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    await again.close();

    const folder = isRoot ? (await readFile(join(home, 'postgres-location'), 'utf8')).trim() : home;
    expect(dirname(folder)).toBe(isRoot ? shelter : closed);
    expect(await readFile(join(folder, 'postgres', 'PG_VERSION'), 'utf8')).toBe('18\n');
    expect(notices).toHaveLength(isRoot ? 1 : 0);
    if (!isRoot) return;
    expect(notices[0]).toContain(`Its data is in ${folder}`);
    await rm(folder, { recursive: true });
    await expect(open()).rejects.toMatchObject({ message: expect.stringContaining('no longer exists') });
  });

  it('is refused with a message when no fallback folder is usable either', async () => {
    const home = scratch.fresh();
    await mkdir(home, { mode: 0o700 });
    const shelter = scratch.fresh('file');
    await writeFile(shelter, 'not a folder');
    // An ordinary user needs no shelter; what it can lack is the right to write its home.
    if (!isRoot) await chmod(home, 0o500);
    const opening = openEmbedded({ home, onNotice: silent, machine: { shelters: [shelter] } });
    await expect(opening).rejects.toMatchObject({
      code: 'EMBEDDED_START_FAILED',
      message: expect.stringContaining('MILLRACE_HOME'),
    });
  });
});

describe('programs installed without their install script', () => {
  const LINK = join('lib', process.platform === 'darwin' ? 'libpq.dylib' : 'libpq.so.5');

  it('get their links at the start', async () => {
    const home = await scratch.preparedHome();
    const native = await copyWithoutLinks(scratch.fresh('package'));
    await expect(lstat(join(native, LINK))).rejects.toMatchObject({ code: 'ENOENT' });
    const server = await openEmbedded({ home, onNotice: silent, machine: { native: () => native } });
    await server.close();
    expect((await lstat(join(native, LINK))).isSymbolicLink()).toBe(true);
  });

  it('run from a copy in the home when the package cannot be written', async () => {
    const home = await scratch.preparedHome();
    const native = await copyWithoutLinks(scratch.fresh('package'));
    const makeWritable = await makeReadOnly(native);
    try {
      const server = await openEmbedded({ home, onNotice: silent, machine: { native: () => native } });
      const version = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8')).version;
      const copy = join(home, `postgres-binaries-${version}`);
      expect((await lstat(join(copy, LINK))).isSymbolicLink()).toBe(true);
      await server.close();
    } finally {
      await makeWritable();
    }
  });
});
