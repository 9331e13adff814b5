import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkServer, judgeServer } from '../../src/postgres/check.ts';
import { openPostgres } from '../../src/postgres/open.ts';
import { until } from '../until.ts';
import { type ExternalServer, startExternal } from './external-server.ts';
import { makeScratch, query, type Scratch } from './scratch.ts';

let scratch: Scratch;
let server: ExternalServer;
beforeAll(async () => {
  scratch = await makeScratch();
  server = await startExternal({ folder: scratch.fresh('external') });
});
afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

async function setEverywhere(setting: string, value: 'on' | 'off'): Promise<void> {
  await query(server.url, `ALTER SYSTEM SET ${setting} = ${value}`);
  await query(server.url, 'SELECT pg_reload_conf()');
  await until(`${setting} is ${value}`, async () => {
    const [row] = await query<{ value: string }>(server.url, `SELECT current_setting('${setting}') AS value`);
    return row?.value === value;
  });
}

describe('a server that DATABASE_URL names', () => {
  it('is used as it is: no home is made and close leaves it running', async () => {
    const home = scratch.fresh();
    const handle = await openPostgres({ databaseUrl: server.url, home });
    expect(handle).toMatchObject({ kind: 'external', home: null, url: server.url });
    expect(Math.floor(handle.version / 10_000)).toBe(server.major);
    await handle.close();
    expect(existsSync(home)).toBe(false);
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('is read from the environment when no option names one', async () => {
    const before = process.env.DATABASE_URL;
    process.env.DATABASE_URL = server.url;
    try {
      expect(await openPostgres({})).toMatchObject({ kind: 'external', url: server.url });
    } finally {
      if (before === undefined) delete process.env.DATABASE_URL;
      else process.env.DATABASE_URL = before;
    }
  });

  it.each(['fsync', 'synchronous_commit', 'full_page_writes'])('is refused while %s is off', async (setting) => {
    await setEverywhere(setting, 'off');
    try {
      await expect(openPostgres({ databaseUrl: server.url })).rejects.toMatchObject({
        code: 'DATABASE_UNSAFE',
        message: expect.stringContaining(`has ${setting} turned off`),
      });
    } finally {
      await setEverywhere(setting, 'on');
    }
    await expect(checkServer(server.url)).resolves.toMatchObject({ version: expect.any(Number) });
  });

  it('is refused with its address but without its password when it cannot be reached', async () => {
    // Nobody listens there. A port that was free a moment ago may be somebody else's by now.
    const address = '127.0.0.1:1';
    const error: unknown = await openPostgres({ databaseUrl: `postgres://me:hunter2@${address}/jobs` }).catch((e) => e);
    expect(error).toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringContaining(`jobs at ${address}`),
    });
    expect(String(error)).not.toContain('hunter2');
  });

  it('is refused when the database does not exist or the address makes no sense', async () => {
    const missing = new URL(server.url);
    missing.pathname = '/absent';
    await expect(checkServer(missing.href)).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringContaining('"absent" does not exist'),
    });
    await expect(checkServer('postgres://')).rejects.toMatchObject({ code: 'DATABASE_UNREACHABLE' });
  });
});

describe('the judgement on a server', () => {
  const safe = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' };

  it('refuses versions before 15 and accepts 15 to 18 without a word', () => {
    expect(() => judgeServer({ ...safe, version: 140_012 }, 'It')).toThrow(
      expect.objectContaining({ code: 'DATABASE_TOO_OLD', message: expect.stringContaining('is PostgreSQL 14') }),
    );
    for (const major of [15, 16, 17, 18]) expect(judgeServer({ ...safe, version: major * 10_000 }, 'It')).toBeNull();
  });

  it('accepts a version above 18 with a notice', () => {
    expect(judgeServer({ ...safe, version: 190_000 }, 'It')).toContain('PostgreSQL 19');
  });

  it('accepts every synchronous_commit that waits for the own disk', () => {
    for (const level of ['local', 'remote_write', 'remote_apply']) {
      expect(judgeServer({ ...safe, synchronous_commit: level, version: 180_000 }, 'It')).toBeNull();
    }
  });
});
