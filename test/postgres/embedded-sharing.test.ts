import { spawn } from 'node:child_process';
import { chown, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chooseAccount, machineAccounts } from '../../src/postgres/account.ts';
import { openEmbedded } from '../../src/postgres/embedded.ts';
import { isAlive, isPostmasterOf } from '../../src/postgres/postmaster.ts';
import { until } from '../until.ts';
import { makeScratch, postmasterPid, query, type Scratch, silent } from './scratch.ts';
import { spawnUser } from './spawn-user.ts';

let scratch: Scratch;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

describe('a home with several users', () => {
  it('is shared inside one process: the server runs until the last close', async () => {
    const home = await scratch.preparedHome();
    const [first, second] = await Promise.all([1, 2].map(() => openEmbedded({ home, onNotice: silent })));
    expect(first!.url).toBe(second!.url);
    await first!.close();
    expect(await query(second!.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await second!.close();
    expect(postmasterPid(home)).toBeNull();
  });

  it('is shared between processes: the last one out stops the server', async () => {
    const home = await scratch.preparedHome();
    const [first, second] = await Promise.all([spawnUser(home), spawnUser(home)]);
    expect(first.url).toBe(second.url);
    const pid = postmasterPid(home)!;
    await first.close();
    expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await second.close();
    expect(isAlive(pid)).toBe(false);
  });

  it('is shared the same way where a Node without SQLite made its lock', async () => {
    const home = await scratch.preparedHome();
    await rm(join(home, 'postgres.lock'));
    await mkdir(join(home, 'postgres.lock'));
    const [first, second] = await Promise.all([spawnUser(home), spawnUser(home)]);
    const pid = postmasterPid(home)!;
    await first.kill('SIGKILL');
    const third = await spawnUser(home);
    await second.close();
    expect(await query(third.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await third.close();
    expect(isAlive(pid)).toBe(false);
    expect(await readdir(join(home, 'postgres-users'))).toEqual([]);
  });

  it('survives processes that open and close at the same time, also while the home is first made', async () => {
    const home = scratch.fresh();
    const users = await Promise.all([3, 4, 5].map((rounds) => spawnUser(home, rounds)));
    expect(new Set(users.map((user) => user.url)).size).toBe(1);
    expect(await query(users[0]!.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await Promise.all(users.map((user) => user.close()));
    expect(postmasterPid(home)).toBeNull();
    expect(await readdir(join(home, 'postgres-users'))).toEqual([]);
  });
});

describe('after a crash', () => {
  it('of the program alone, the next start adopts the running server and the last one out stops it', async () => {
    const home = await scratch.preparedHome();
    const user = await spawnUser(home);
    const pid = postmasterPid(home)!;
    await user.kill('SIGKILL');
    expect(isAlive(pid)).toBe(true);
    const adopted = await openEmbedded({ home, onNotice: silent });
    expect(postmasterPid(home)).toBe(pid);
    await adopted.close();
    expect(isAlive(pid)).toBe(false);
  });

  it('a Ctrl-C in the terminal ends the program but not its database', async () => {
    const home = await scratch.preparedHome();
    const user = await spawnUser(home);
    const pid = postmasterPid(home);
    await user.kill('SIGINT');
    const adopted = await openEmbedded({ home, onNotice: silent });
    expect(postmasterPid(home)).toBe(pid);
    await adopted.close();
  });

  it('of program and server together, committed data is there after the restart', async () => {
    const home = await scratch.preparedHome();
    const user = await spawnUser(home);
    await query(user.url, 'CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n');
    const pid = postmasterPid(home)!;
    process.kill(pid, 'SIGKILL');
    await user.kill('SIGKILL');
    await until('the process has ended', () => !isAlive(pid));
    const reopened = await openEmbedded({ home, onNotice: silent });
    expect(postmasterPid(home)).not.toBe(pid);
    expect(await query(reopened.url, 'SELECT count(*)::int AS kept FROM kept')).toEqual([{ kept: 1000 }]);
    await reopened.close();
  });

  it('of the server alone, the next open starts it again where its living users look for it', async () => {
    const home = await scratch.preparedHome();
    const user = await spawnUser(home);
    const pid = postmasterPid(home)!;
    process.kill(pid, 'SIGKILL');
    await until('the process has ended', () => !isAlive(pid));
    const reopened = await openEmbedded({ home, onNotice: silent });
    expect(reopened.url).toBe(user.url);
    await reopened.close();
    expect(await query(user.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await user.close();
    expect(postmasterPid(home)).toBeNull();
  });

  it('a stale postmaster.pid that names a process of another program is ignored', async () => {
    const home = await scratch.preparedHome();
    const dataFolder = join(home, 'postgres');
    const account = chooseAccount(machineAccounts, { data: dataFolder, home });
    const identity = account === null ? {} : { uid: account.uid, gid: account.gid };
    const bystander = spawn('sleep', ['600'], { ...identity, cwd: '/', stdio: 'ignore' });
    const file = join(dataFolder, 'postmaster.pid');
    await writeFile(file, `${bystander.pid}\n${dataFolder}\n1700000000\n5432\n\n127.0.0.1\n  1234567  7654321\nready   \n`);
    if (account !== null) await chown(file, account.uid, account.gid);
    const server = await openEmbedded({ home, onNotice: silent });
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(await isPostmasterOf(postmasterPid(home)!, dataFolder)).toBe(true);
    await server.close();
    expect(isAlive(bystander.pid!)).toBe(true);
    bystander.kill();
  });
});
