/** Commands on the jobs of any org, which the person on call needs. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JobState } from '../../src/core/states.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { storeSchedule } from '../ledger/stored-schedules.ts';
import { ask, folderWith, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Org = { id: string; slug: string };

async function newOrg(): Promise<Org> {
  const id = await ledger.newOrg();
  return { id, slug: `org-${id.slice(0, 13)}` };
}

const putIn = (org: Org, state: JobState, type: string) => ledger.putJob(state, { orgId: org.id, type });
const idsOf = ({ jobs }: { jobs: { id: string }[] }) => jobs.map(({ id }) => id);

describe('--org and --all-orgs', () => {
  it('choose whose jobs are listed, in the order of all of them', async () => {
    const [ada, bob] = [await newOrg(), await newOrg()];
    const type = 'orgs.list';
    const first = await putIn(ada, 'scheduled', type);
    const second = await putIn(bob, 'failed', type);
    const third = await putIn(ada, 'failed', type);
    const list = async (...args: string[]) => idsOf(await ask(['jobs', 'list', '--type', type, ...args], here()));
    expect(await list()).toEqual([]);
    expect(await list('--org', ada.slug)).toEqual([third.id, first.id]);
    expect(await list('--org', bob.id.toUpperCase())).toEqual([second.id]);
    expect(await list('--all-orgs')).toEqual([third.id, second.id, first.id]);
    expect(await list('--all-orgs', '--order', 'CREATED_ASC', '--limit', '2')).toEqual([first.id, second.id]);
    const { stdout } = await run(['jobs', 'list', '--all-orgs', '--type', type, '--limit', '1'], here());
    expect(stdout).toMatch(new RegExp(`^org .*\n${ada.slug} +${third.id} .*\n\n1 of 3\nMore: narrow the filter`));
    const mistyped = await run(['jobs', 'list', '--org', `${ada.slug}x`], here());
    expect(mistyped).toMatchObject({ code: 1, stderr: expect.stringContaining(`(did you mean ${ada.slug}?). See "millrace orgs list".`) });
  });

  it('let every command on one job reach it, and say whose it is otherwise', async () => {
    const [ada, bob] = [await newOrg(), await newOrg()];
    const job = await putIn(ada, 'failed', 'orgs.one');
    for (const command of ['get', 'explain', 'logs', 'retry', 'watch']) {
      for (const org of [[], ['--org', bob.slug]]) {
        const refused = await run(['jobs', command, job.id, ...org], here());
        const chosen = org.length === 0 ? 'default' : bob.slug;
        expect(refused).toMatchObject({ code: 1, stdout: '' });
        expect(refused.stderr).toBe(
          `error: The org ${chosen} has no job ${job.id}. It belongs to the org ${ada.slug}: use --org ${ada.slug} or --all-orgs.\n`,
        );
      }
    }
    const cancelled = await run(['jobs', 'cancel', job.id], here());
    expect(cancelled).toMatchObject({ code: 1, stdout: expect.stringContaining(`It belongs to the org ${ada.slug}`) });
    expect(await ledger.stateOf(job)).toBe('failed');
    expect(await ask(['jobs', 'get', job.id, '--org', ada.slug], here())).toMatchObject({ id: job.id, orgId: ada.id });
    expect(await ask(['jobs', 'explain', job.id, '--all-orgs'], here())).toMatchObject({ state: 'failed' });
    expect(await ask(['jobs', 'retry', job.id, '--all-orgs'], here())).toMatchObject({ status: 'QUEUED' });
    const { results } = await ask<{ results: object[] }>(['jobs', 'cancel', job.id, '--org', ada.slug], here());
    expect(results).toMatchObject([{ jobId: job.id, status: 'CANCELLED' }]);
    const nowhere = randomUUID();
    expect((await run(['jobs', 'logs', nowhere, '--all-orgs'], here())).stderr).toContain(`There is no job ${nowhere}.`);
  });

  it('let a job be submitted for an org, and waited for', async () => {
    const org = await newOrg();
    const cwd = folderWith({
      'handlers.js': `export const handlers = {
        'orgs.good': (_context, { n }) => ({ doubled: 2 * n }),
        'orgs.bad': { maxAttempts: 1, handler() { throw new Error('it broke'); } },
      };`,
    });
    const worker = start(['work', 'handlers.js'], { ...here(), cwd });
    await worker.said(/Serving/);
    const good = await ask(['jobs', 'submit', 'orgs.good', '{"n":21}', '--org', org.slug, '--wait'], here());
    expect(good).toMatchObject({ orgId: org.id, state: 'completed', result: { output: { doubled: 42 } } });
    const bad = await run(['jobs', 'submit', 'orgs.bad', '--org', org.slug, '--wait'], here());
    expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining('Waiting until it has ended.') });
    expect(bad.stdout).toMatch(/^state +dead_letter$/m);
    const late = await run(['jobs', 'submit', 'orgs.none', '--wait', '--timeout', '100ms'], here());
    expect(late).toMatchObject({ code: 1, stderr: expect.stringMatching(/is still scheduled after 100 ms/) });
  });
});

describe('what the person on call looks at first', () => {
  it('orgs list shows every org', async () => {
    const org = await newOrg();
    const { orgs } = await ask<{ orgs: Org[] }>(['orgs', 'list'], here());
    expect(orgs).toContainEqual(expect.objectContaining({ ...org, maxRunning: null, requestsPerMinute: null }));
    expect(orgs).toContainEqual(expect.objectContaining({ id: DEFAULT_ORG_ID, slug: 'default' }));
    expect((await run(['orgs', 'list'], here())).stdout).toMatch(new RegExp(`^${org.slug} +${org.id} +as configured +no cap`, 'm'));
  });

  it('stats counts the jobs of an org, or of each org', async () => {
    const [ada, bob] = [await newOrg(), await newOrg()];
    for (const state of ['scheduled', 'scheduled', 'running', 'dead_letter'] as const) await putIn(ada, state, `orgs.${state}`);
    await putIn(bob, 'delayed', 'orgs.stats');
    const one = await ask(['stats', '--org', ada.slug, '--by', 'type'], here());
    expect(one).toMatchObject({
      ...{ org: ada.slug, orgId: ada.id, states: { scheduled: 2, running: 1, dead_letter: 1, delayed: 0 } },
      byType: { 'orgs.scheduled': { pending: 2, running: 0 }, 'orgs.dead_letter': { failed: 1 } },
    });
    const { orgs } = await ask<{ orgs: object[] }>(['stats', '--all-orgs'], here());
    expect(orgs).toContainEqual(expect.objectContaining({ org: ada.slug, states: expect.objectContaining({ scheduled: 2 }) }));
    expect(orgs).toContainEqual(expect.objectContaining({ org: bob.slug, states: expect.objectContaining({ delayed: 1 }) }));
    const { stdout } = await run(['stats', '--org', bob.slug, '--range', '24h'], here());
    expect(stdout).toMatch(/^delayed +1$/m);
    expect((await run(['stats', '--range', '0'], here())).stderr).toContain('--range must be greater than zero.');
  });

  it('queues list says how many jobs wait, for how long, and how many run', async () => {
    const [ada, bob] = [await newOrg(), await newOrg()];
    const job = { queue: 'q:depth' };
    for (const org of [ada, ada, bob]) await ledger.submitOne({ orgId: org.id, job });
    const running = await ledger.start(await ledger.submitOne({ orgId: ada.id }));
    await ledger.db.api.query(`UPDATE millrace.jobs SET queue = 'q:depth' WHERE id = $1`, [running.id]);
    await ledger.submitOne({ orgId: ada.id, job: { ...job, runAfterMs: 3_600_000 } });
    await ledger.db.api.query(`INSERT INTO millrace.queues (name) VALUES ('q:depth') ON CONFLICT DO NOTHING`);
    await ledger.moveClock(600_000);
    const depth = async (...args: string[]) =>
      (await ask<{ queues: { name: string }[] }>(['queues', 'list', ...args], here())).queues.find(({ name }) => name === 'q:depth');
    expect(await depth()).toMatchObject({ waiting: 3, running: 1, pausedAt: null, oldestWaitingMs: expect.any(Number) });
    expect(await depth('--org', ada.slug)).toMatchObject({ waiting: 2, running: 1 });
    expect(await depth('--org', bob.slug)).toMatchObject({ waiting: 1, running: 0 });
    expect((await run(['queues', 'list'], here())).stdout).toMatch(/^q:depth +3 +10 min +1 +/m);
    await ledger.moveClock(-600_000);
  });

  it('workers list tells live workers from silent and stopped ones, with what they run', async () => {
    const org = await newOrg();
    const leased = await ledger.start(await ledger.submitOne({ orgId: org.id }));
    const [stopped, silent] = [await ledger.registerWorker('gone'), await ledger.registerWorker('mute')];
    await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [stopped]);
    await ledger.db.api.query(`UPDATE millrace.workers SET beat_at = millrace.clock() - interval '2 minutes' WHERE id = $1`, [silent]);
    const list = async (...args: string[]) => (await ask<{ workers: { id: number }[] }>(['workers', 'list', ...args], here())).workers;
    const shown = await list();
    expect(shown).toContainEqual(expect.objectContaining({ id: leased.workerId, status: 'alive', running: 1, slots: 8 }));
    expect(shown).toContainEqual(expect.objectContaining({ id: silent, status: 'silent', running: 0 }));
    expect(shown.map(({ id }) => id)).not.toContain(stopped);
    expect(await list('--stopped')).toContainEqual(expect.objectContaining({ id: stopped, status: 'stopped' }));
    expect((await run(['workers', 'list'], here())).stdout).toMatch(/^mute +silent +0\/8 +2 min ago/m);
  });

  it('schedules list shows the schedules of an org, or of all', async () => {
    const [ada, bob] = [await newOrg(), await newOrg()];
    const schedule = { cron: '0 6 * * *', timeZone: 'Europe/Berlin', missed: 'one' as const, nextAt: new Date('2030-01-01T05:00:00Z') };
    for (const org of [ada, bob]) await storeSchedule(ledger.db.api, org.id, { ...schedule, key: 'daily', submission: { type: 'report' } });
    const list = async (...args: string[]) =>
      (await ask<{ schedules: { org: string }[] }>(['schedules', 'list', ...args], here())).schedules;
    expect(await list('--org', ada.slug)).toMatchObject([{ org: ada.slug, key: 'daily', cron: '0 6 * * *', lastFiredAt: null }]);
    expect((await list('--all-orgs')).map(({ org }) => org).sort()).toEqual([ada.slug, bob.slug].sort());
    expect((await run(['schedules', 'list'], here())).stdout).toBe('There are no schedules.\n');
    const { stdout } = await run(['schedules', 'list', '--org', ada.slug], here());
    expect(stdout).toMatch(/daily +0 6 \* \* \* +Europe\/Berlin +report +2030-01-01T05:00:00\.000Z +never +one +queue$/m);
  });
});
