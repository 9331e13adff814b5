import { appendFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { locateNative } from '../../src/postgres/binaries.ts';
import { type Machine, openEmbedded } from '../../src/postgres/embedded.ts';
import { scriptedNative } from './package-copy.ts';
import { isRoot, makeScratch, postmasterPid, run, type Scratch, silent } from './scratch.ts';

let scratch: Scratch;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

async function expectRefusal(params: { home: string; code: string; says: string; machine?: Partial<Machine> }) {
  const opening = openEmbedded({ home: params.home, onNotice: silent, machine: params.machine });
  await expect(opening).rejects.toMatchObject({
    name: 'AppError',
    code: params.code,
    message: expect.stringContaining(params.says),
  });
}

describe('a data folder that is not ours', () => {
  it('is refused and left as it is when it holds other files', async () => {
    const home = scratch.fresh();
    const data = join(home, 'postgres');
    await mkdir(data, { recursive: true });
    await writeFile(join(data, 'holiday.jpg'), 'x');
    await expectRefusal({ home, code: 'EMBEDDED_FOREIGN_DATA', says: 'not a PostgreSQL database. Move it away' });
    expect(await readdir(data)).toEqual(['holiday.jpg']);
  });

  it('is refused when its path is a file', async () => {
    const home = scratch.fresh();
    await mkdir(home);
    await writeFile(join(home, 'postgres'), 'x');
    await expectRefusal({ home, code: 'EMBEDDED_FOREIGN_DATA', says: 'is not a folder' });
  });

  it('is refused when another program made the cluster, or its password is lost', async () => {
    const home = await scratch.preparedHome();
    await rm(join(home, 'postgres-password'));
    await expectRefusal({ home, code: 'EMBEDDED_FOREIGN_DATA', says: 'password is lost' });
    await rm(join(home, 'postgres', 'millrace-cluster'));
    await expectRefusal({ home, code: 'EMBEDDED_FOREIGN_DATA', says: 'a PostgreSQL database of another program' });
  });

  it('is refused when a newer or an older PostgreSQL wrote it', async () => {
    const home = await scratch.preparedHome();
    const versionFile = join(home, 'postgres', 'PG_VERSION');
    await writeFile(versionFile, '19\n');
    await expectRefusal({
      home,
      code: 'EMBEDDED_NEWER_DATA',
      says: 'PostgreSQL 19, but this program contains PostgreSQL 18',
    });
    await writeFile(versionFile, '17\n');
    await expectRefusal({
      home,
      code: 'EMBEDDED_OLDER_DATA',
      says: 'PostgreSQL 17, but this program contains PostgreSQL 18',
    });
  });
});

describe('a server that cannot start', () => {
  it('is explained by the last lines of its log, and leaves nothing running', async () => {
    const home = await scratch.preparedHome();
    await appendFile(join(home, 'postgres', 'postgresql.conf'), "shared_buffers = 'plenty'\n");
    await expectRefusal({ home, code: 'EMBEDDED_START_FAILED', says: 'invalid value for parameter "shared_buffers"' });
    expect(postmasterPid(home)).toBeNull();
  });

  it('is explained when the platform has no programs or they do not run', async () => {
    expect(() => locateNative('sunos', 'sparc')).toThrow(expect.objectContaining({ code: 'EMBEDDED_UNSUPPORTED_PLATFORM' }));
    const native = await scriptedNative(scratch.fresh('package'), { postgres: 'echo wrong libc >&2; exit 127' });
    const machine = { native: () => native };
    await expectRefusal({ home: scratch.fresh(), code: 'EMBEDDED_UNSUPPORTED_PLATFORM', says: 'wrong libc', machine });
  });

  it('is explained when initdb fails', async () => {
    const native = await scriptedNative(scratch.fresh('package'), {
      postgres: 'echo "postgres (PostgreSQL) 18.4"',
      initdb: 'echo "initdb: error: the moon is full" >&2; exit 1',
    });
    const machine = { native: () => native };
    await expectRefusal({ home: scratch.fresh(), code: 'EMBEDDED_START_FAILED', says: 'the moon is full', machine });
  });

  it('is explained when the user has no name on this machine', async () => {
    const home = scratch.fresh();
    const passwd = () => 'ghost:x:54321:54321::/:/bin/false';
    const machine = isRoot ? { accounts: { isRoot, passwd } } : { native: () => native };
    const native = await scriptedNative(scratch.fresh('package'), {
      postgres: 'echo "postgres (PostgreSQL) 18.4"',
      initdb: 'echo "initdb: could not look up effective user ID 54321: user does not exist" >&2; exit 1',
    });
    await expectRefusal({
      home,
      code: 'EMBEDDED_START_FAILED',
      says: 'Add this user id to /etc/passwd',
      machine,
    });
  });
});

describe('a full disk', () => {
  it('is named, with what to do, when the data is made and when the server starts', async () => {
    const mount = scratch.fresh('disk');
    await mkdir(mount);
    try {
      await run('mount', ['-t', 'tmpfs', '-o', 'size=20m,mode=755', 'tmpfs', mount]);
    } catch {
      await expectFullDiskFromInitdb();
      return;
    }
    try {
      const home = join(mount, 'home');
      await expectRefusal({
        home,
        code: 'EMBEDDED_DISK_FULL',
        says: `The disk of ${home}/postgres is full. Free some space`,
      });
      expect((await readdir(home)).filter((name) => name.startsWith('postgres.new'))).toEqual([]);
      await run('mount', ['-o', 'remount,size=200m', mount]);
      await rm(home, { recursive: true });
      await run('cp', ['-a', await scratch.preparedHome(), home]);
      await run('sh', ['-c', 'cat /dev/zero > "$1" 2>/dev/null || true', 'sh', join(mount, 'filler')]);
      await expectRefusal({ home, code: 'EMBEDDED_DISK_FULL', says: 'is full. Free some space' });
      await rm(join(mount, 'filler'));
      const server = await openEmbedded({ home, onNotice: silent });
      await server.close();
    } finally {
      await run('umount', [mount]);
    }
  });
});

/** Where nothing can be mounted, initdb itself reports what the kernel would have told it. */
async function expectFullDiskFromInitdb(): Promise<void> {
  const native = await scriptedNative(scratch.fresh('package'), {
    postgres: 'echo "postgres (PostgreSQL) 18.4"',
    initdb: 'echo "initdb: error: could not write to file: No space left on device" >&2; exit 1',
  });
  const machine = { native: () => native };
  await expectRefusal({ home: scratch.fresh(), code: 'EMBEDDED_DISK_FULL', says: 'is full. Free some space', machine });
}
