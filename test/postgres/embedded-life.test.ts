import { chmod, mkdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { choosePort } from '../../src/postgres/address.ts';
import { openEmbedded } from '../../src/postgres/embedded.ts';
import { openPostgres } from '../../src/postgres/open.ts';
import { isAlive } from '../../src/postgres/postmaster.ts';
import { removeFolder } from './remove-folder.ts';
import { makeScratch, postmasterPid, query, type Scratch, silent } from './scratch.ts';

let scratch: Scratch;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

describe('the embedded server', () => {
  it('is made on first use, keeps its data, and leaves no process after close', async () => {
    const home = scratch.fresh();
    const first = await openPostgres({ databaseUrl: '', home });
    expect(first).toMatchObject({ kind: 'embedded', home });
    expect(Math.floor(first.version / 10_000)).toBe(18);
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    const pid = postmasterPid(home)!;
    await first.close();
    expect(isAlive(pid)).toBe(false);

    const second = await openPostgres({ databaseUrl: '', home });
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    await second.close();
    await second.close();
    expect(postmasterPid(home)).toBeNull();
  });

  it('is durable, local, closed without a password, and uses UTF-8', async () => {
    const home = await scratch.preparedHome();
    const server = await openEmbedded({ home, onNotice: silent });
    const socketFolder = (await readFile(join(home, 'postgres-host'), 'utf8')).trim();
    const names = [
      ...['fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses', 'unix_socket_directories'],
      ...['shared_buffers', 'max_wal_size', 'max_connections', 'server_encoding', 'data_checksums'],
    ];
    const [settings] = await query(server.url, `SELECT ${names.map((name) => `current_setting('${name}') AS ${name}`).join(', ')}`);
    expect(settings).toEqual({
      ...{ fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' },
      ...{ listen_addresses: '', unix_socket_directories: `"${socketFolder}"` },
      ...{ shared_buffers: expect.stringMatching(/^(?:\d{3}MB|1GB)$/), max_wal_size: '4GB', max_connections: '200' },
      ...{ server_encoding: 'UTF8', data_checksums: 'on' },
    });
    const withoutPassword = new URL(server.url);
    withoutPassword.password = 'guess';
    await expect(query(withoutPassword.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
    expect((await stat(join(home, 'postgres-password'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(home, 'postgres'))).mode & 0o777).toBe(0o700);
    expect((await stat(socketFolder)).mode & 0o777).toBe(0o700);
    expect((await stat(join(home, 'postgres.lock'))).mode & 0o777).toBe(0o600);
    expect((await stat(home)).mode & 0o066).toBe(0);
    await server.close();
  });

  it('writes its address to files and has the same one after the next start', async () => {
    const home = await scratch.preparedHome();
    const first = await openEmbedded({ home, onNotice: silent });
    const [host, port] = await Promise.all(['host', 'port'].map((part) => readFile(join(home, `postgres-${part}`), 'utf8')));
    const { hostname, port: used } = new URL(first.url);
    expect([decodeURIComponent(hostname), used]).toEqual([host?.trim(), port?.trim()]);
    await first.close();
    const second = await openEmbedded({ home, onNotice: silent });
    expect(second.url).toBe(first.url);
    await second.close();
  });

  it('listens on 127.0.0.1 where there are no Unix sockets, on another port if the chosen one is taken before the start', async () => {
    const home = await scratch.preparedHome();
    const squatter = createServer().listen(0, '127.0.0.1');
    const taken = await new Promise<number>((resolve) => {
      squatter.once('listening', () => resolve((squatter.address() as { port: number }).port));
    });
    const attempts: number[] = [];
    const server = await openEmbedded({
      home,
      onNotice: silent,
      machine: {
        chooseAddress: () => async (place, attempt) => {
          attempts.push(attempt);
          return { host: '127.0.0.1', port: attempt === 0 ? taken : await choosePort(place, attempt) };
        },
      },
    });
    // Somebody else may take the second port, too.
    expect(attempts.slice(0, 2)).toEqual([0, 1]);
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await server.close();
    const refused = openEmbedded({
      home,
      onNotice: silent,
      machine: { chooseAddress: () => async () => ({ host: '127.0.0.1', port: taken }) },
    });
    await expect(refused).rejects.toMatchObject({
      code: 'EMBEDDED_PORT_TAKEN',
      message: expect.stringContaining(`${taken}`),
    });
    squatter.close();
  });

  it('opens its socket in a short folder if the path of the home is too long for one', async () => {
    const home = join(scratch.fresh(), 'x'.repeat(100), `it's "50 %", ü`);
    await mkdir(join(home, '..'), { recursive: true });
    for (const folder of [join(home, '..'), join(home, '../..')]) await chmod(folder, 0o755);
    const first = await openEmbedded({ home, onNotice: silent });
    const socket = decodeURIComponent(new URL(first.url).hostname);
    expect(socket).toMatch(/^\/tmp\/millrace-/);
    expect((await stat(socket)).mode & 0o777).toBe(0o700);
    expect(await query(first.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await first.close();
    await expect(stat(socket)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('works in a home whose name needs quotes', async () => {
    // Short, whatever the folder of the tests is called.
    const home = `/tmp/it's "50 %", ü ${process.pid}`;
    onTestFinished(() => removeFolder(home));
    const server = await openEmbedded({ home, onNotice: silent });
    expect(decodeURIComponent(new URL(server.url).hostname)).toBe(join(home, 'postgres-socket'));
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await server.close();
  });

  it('gives its programs nothing of the environment that they do not need', async () => {
    process.env.SECRET_OF_THIS_PROCESS = 'sesame';
    const home = await scratch.preparedHome();
    const server = await openEmbedded({ home, onNotice: silent });
    delete process.env.SECRET_OF_THIS_PROCESS;
    const environment = await readFile(`/proc/${postmasterPid(home)}/environ`, 'utf8').catch(() => 'PATH=unknown on this platform');
    expect(environment).toContain('PATH=');
    expect(environment).not.toContain('sesame');
    await server.close();
  });

  it('empties a log that has grown beyond ten megabytes when it starts', async () => {
    const home = await scratch.preparedHome();
    const log = join(home, 'postgres.log');
    await writeFile(log, 'old\n');
    await truncate(log, 11 * 1024 * 1024);
    const server = await openEmbedded({ home, onNotice: silent });
    expect((await stat(log)).size).toBeLessThan(100_000);
    await server.close();
  });

  it('refuses to adopt a server whose data folder says it may lose work', async () => {
    const home = await scratch.preparedHome();
    const server = await openEmbedded({ home, onNotice: silent });
    await query(server.url, 'ALTER DATABASE millrace SET synchronous_commit = off');
    await server.close();
    await expect(openEmbedded({ home, onNotice: silent })).rejects.toMatchObject({ code: 'DATABASE_UNSAFE' });
    expect(postmasterPid(home)).toBeNull();
  });
});
