import { describe, expect, it, onTestFinished } from 'vitest';
import { textWidth } from '../../src/cli/text-width.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, type Running, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Printed = {
  org: string | null;
  overview: { queues: { name: string; waiting: number }[]; failures: { type: string; code: string }[] };
};

it('shows one screen without a terminal, and the same as JSON', async () => {
  await ledger.putJob('scheduled', { type: 'top.waiting' });
  const { code, stdout } = await run(['top'], here());
  expect(code).toBe(0);
  expect(stdout).toMatch(/UTC {2}all orgs {2}workers 0 /);
  expect(stdout).toMatch(/^q:default +1 +0 /m);
  expect(stdout.trimEnd().split('\n').length).toBeLessThanOrEqual(24);
  const { org, overview } = await ask<Printed>(['top', '--once'], here());
  expect(org).toBeNull();
  expect(overview.queues.find(({ name }) => name === 'q:default')).toMatchObject({ waiting: 1 });
});

it('shows the failures and the jobs of one org only, if asked', async () => {
  const orgId = await ledger.newOrg();
  await ledger.putJob('dead_letter', { orgId, type: 'top.failed' });
  const { overview } = await ask<Printed>(['top', '--once', '--org', orgId], here());
  expect(overview.failures).toMatchObject([{ type: 'top.failed' }]);
  expect(overview.queues.reduce((sum, { waiting }) => sum + waiting, 0)).toBe(0);
});

it('goes on until it is stopped, and ends well', async () => {
  const top = start(['top', '--json', '--every', '200ms'], here());
  await top.said(/("overview".*\n.*){2}/);
  top.kill('SIGINT');
  expect(await top.ended).toMatchObject({ code: 0, stderr: '' });
});

it('refuses to look too often', async () => {
  expect(await run(['top', '--every', '1ms'], here())).toMatchObject({ code: 2, stderr: expect.stringContaining('at least 200ms') });
});

it('keeps lines with wide characters within 80 columns', async () => {
  const orgId = await ledger.newOrg();
  await ledger.putJob('dead_letter', { orgId, type: '請求書の送信を行う仕事'.repeat(5) });
  const { stdout } = await run(['top', '--once', '--org', orgId], here());
  expect(stdout).toContain('請求書');
  for (const line of stdout.split('\n')) expect(textWidth(line), line).toBeLessThanOrEqual(80);
});

describe('while its database is away', () => {
  async function openRoad(): Promise<DatabaseRoad> {
    const road = new DatabaseRoad(ledger.db.url);
    await road.open();
    onTestFinished(() => road.close());
    return road;
  }

  /** A live view that has drawn a screen. */
  async function startLive(road: DatabaseRoad): Promise<Running> {
    const top = start(['top', '--every', '200ms'], { database: road.url, terminal: true });
    await top.said(/all orgs/);
    return top;
  }

  it('it says that the database does not respond, and ends at every key and signal that ends it', async () => {
    const leave: Record<string, (top: Running) => void> = {
      q: (top) => top.type('q'),
      'Ctrl-C': (top) => top.type('\u0003'),
      'Ctrl-D': (top) => top.type('\u0004'),
      'the end of its input': (top) => top.endInput(),
      'a signal': (top) => top.kill('SIGINT'),
    };
    const road = await openRoad();
    const views = await Promise.all(Object.entries(leave).map(async ([how, end]) => ({ how, end, top: await startLive(road) })));
    road.block();
    for (const { how, end, top } of views) {
      await top.said(/The database does not respond\. Retrying until it does\./);
      end(top);
      expect(await top.ended, how).toMatchObject({ code: 0, stderr: '' });
      expect(top.stdout.endsWith('\u001b[?1049l'), 'the terminal shows the lines of the shell again').toBe(true);
    }
  });

  it('it says so, keeps the last view, and goes on when the database is back', async () => {
    const road = await openRoad();
    const top = await startLive(road);
    await road.close();
    await top.said(/The database is unreachable\. Retrying until it is back\..*\n.+\n.*UTC {2}all orgs/);
    await road.open();
    await top.said(/until it is back[\s\S]*H\d\d:\d\d:\d\d UTC {2}all orgs/);
    top.type('q');
    expect(await top.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('with --json, it prints one error and goes on', async () => {
    const road = await openRoad();
    const top = start(['top', '--json', '--every', '200ms'], { database: road.url });
    await top.said(/"overview"/);
    await road.close();
    await top.complained(/\{"error":\{"code":"\w+".*\n/);
    const before = top.stdout.length;
    await road.open();
    await top.said(new RegExp(`^[\\s\\S]{${before}}.*"overview"`));
    top.kill('SIGINT');
    const { code, stderr } = await top.ended;
    expect({ code, errors: stderr.match(/"error"/g)?.length }).toEqual({ code: 0, errors: 1 });
  });

  it('a command that follows jobs ends at Ctrl-C', async () => {
    const job = await ledger.putJob('scheduled', { orgId: DEFAULT_ORG_ID });
    for (const args of [
      ['jobs', 'watch', job.id],
      ['logs', job.id],
    ]) {
      const road = await openRoad();
      const follower = start(args, { database: road.url });
      await follower.said(/scheduled/);
      road.block();
      follower.kill('SIGINT');
      expect(await follower.ended, args.join(' ')).toMatchObject({ code: 130 });
    }
  });
});
