import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Millrace } from '../../src/library/millrace.ts';
import { type EmbeddedServer, openEmbedded } from '../../src/postgres/embedded.ts';
import { isAlive } from '../../src/postgres/postmaster.ts';
import { until } from '../until.ts';
import { makeScratch, postmasterPid, query, type Scratch } from './scratch.ts';

let scratch: Scratch;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

async function openNoting(home: string): Promise<{ server: EmbeddedServer; notices: string[] }> {
  const notices: string[] = [];
  const server = await openEmbedded({ home, onNotice: (sentence) => notices.push(sentence) });
  onTestFinished(() => server.close());
  return { server, notices };
}

describe('a server that is killed while a process uses it', () => {
  it('is restarted at the same address with all committed data, with one notice each time', async () => {
    const home = await scratch.preparedHome();
    const { server, notices } = await openNoting(home);
    await query(server.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    for (const times of [1, 2]) {
      const pid = postmasterPid(home)!;
      process.kill(pid, 'SIGKILL');
      await until(`the server has been restarted ${times} times`, () => notices.length, times);
      expect(notices.at(-1)).toBe(`The embedded PostgreSQL of ${home} ended unexpectedly and was restarted.`);
      expect(postmasterPid(home)).not.toBe(pid);
      expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    }
    const pid = postmasterPid(home)!;
    await server.close();
    expect([isAlive(pid), postmasterPid(home), notices.length]).toEqual([false, null, 2]);
  });

  it('is started once, whichever of its users notices first', async () => {
    const home = await scratch.preparedHome();
    const users = [await openNoting(home), await openNoting(home), await openNoting(home)];
    process.kill(postmasterPid(home)!, 'SIGKILL');
    await until(
      'one of the users has started the server again',
      () => users,
      (seen) => seen.some(({ notices }) => notices.length > 0),
    );
    const pid = postmasterPid(home);
    for (const { server } of users) expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await users[0]?.server.close();
    expect(postmasterPid(home)).toBe(pid);
    expect(users.flatMap(({ notices }) => notices)).toHaveLength(1);
  });

  it('is not started again by a process that has closed it', async () => {
    const home = await scratch.preparedHome();
    const { server, notices } = await openNoting(home);
    process.kill(postmasterPid(home)!, 'SIGKILL');
    await server.close();
    const { server: next } = await openNoting(home);
    expect(await query(next.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await next.close();
    expect([postmasterPid(home), notices]).toEqual([null, []]);
  });

  it('is tried again for as long as it cannot start, with one notice for the trouble', async () => {
    const home = await scratch.preparedHome();
    const { server, notices } = await openNoting(home);
    const file = join(home, 'postgres', 'pg_hba.conf');
    const rules = await readFile(file, 'utf8');
    await rm(file);
    process.kill(postmasterPid(home)!, 'SIGKILL');
    await until('the keeper has reported its failure', () => notices.length, 1);
    expect(notices[0]).toMatch(/ended and could not be restarted \([\s\S]*pg_hba\.conf/);
    await writeFile(file, rules, { mode: 0o644 });
    await until('the server has been restarted', () => notices.length, 2);
    expect(notices[1]).toMatch(/was restarted/);
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('costs the program no more than a pause: the next submission is run', async () => {
    const home = await scratch.preparedHome();
    const notices: string[] = [];
    const millrace = await Millrace.open({ database: '', home, onNotice: (sentence) => notices.push(sentence) });
    onTestFinished(() => millrace.close());
    millrace.register({ type: 'add', handler: (_context, { n }: { n: number }) => n + 1 });
    await millrace.start();
    const runOne = async () => {
      const { jobId } = await millrace.submit({ type: 'add', payload: { n: 1 } });
      return (await millrace.waitFor(jobId)).state;
    };
    expect(await runOne()).toBe('completed');
    process.kill(postmasterPid(home)!, 'SIGKILL');
    await until(
      'the server has been started again',
      () => notices.length,
      (count) => count > 0,
    );
    // Connections that died with the server are found dead by their next use.
    await until('a job runs on the restarted server', () => runOne().catch(() => null), 'completed');
  });
});
