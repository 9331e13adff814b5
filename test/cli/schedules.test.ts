import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { storedSchedules, storeSchedule } from '../ledger/stored-schedules.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });
const NEXT = new Date('2030-01-01T05:00:00Z');

/** An org with a schedule, and the options that name the org. */
async function orgWith(key: string) {
  const id = await ledger.newOrg();
  const schedule = { cron: '0 6 * * *', timeZone: 'Europe/Berlin', missed: 'one', overlap: 'skip', nextAt: NEXT } as const;
  await storeSchedule(ledger.db.api, id, { ...schedule, key, submission: { type: 'report', payload: { region: 'north' } } });
  const org = ['--org', `org-${id.slice(0, 13)}`];
  return { id, org, stored: async () => (await storedSchedules(ledger.db.api, id))[0] };
}

describe('millrace schedules', () => {
  it('show prints a schedule and its job', async () => {
    const { org } = await orgWith('daily');
    const { stdout, code } = await run(['schedules', 'show', 'daily', ...org], here());
    expect(code).toBe(0);
    expect(stdout).toMatch(/^schedule +daily\ncron +0 6 \* \* \*\ntime zone +Europe\/Berlin\ntype +report$/m);
    expect(stdout).toMatch(/^next +2030-01-01T05:00:00\.000Z\nlast +never$/m);
    expect(stdout).toContain('{"type":"report","payload":{"region":"north"}}');
    expect(await ask(['schedules', 'show', 'daily', ...org], here())).toMatchObject({ schedule: { key: 'daily', overlap: 'skip' } });
  });

  it('next prints the next times, as many as it is asked for', async () => {
    const { org } = await orgWith('daily');
    const { stdout } = await run(['schedules', 'next', 'daily', '--count', '3', ...org], here());
    expect(stdout).toMatch(/^(\d{4}-\d\d-\d\dT0[45]:00:00\.000Z\n){3}$/);
    expect((await ask<{ times: string[] }>(['schedules', 'next', 'daily', ...org], here())).times).toHaveLength(10);
    for (const count of ['0', '101', 'ten']) expect((await run(['schedules', 'next', 'daily', '--count', count], here())).code).toBe(2);
  });

  it('pause and resume change it, with a reason that show prints, and list shows it as paused', async () => {
    const { org, stored } = await orgWith('daily');
    expect((await run(['schedules', 'pause', 'daily', '--reason', 'a\nbreak', ...org], here())).stdout).toBe('Schedule daily is paused.\n');
    expect(await stored()).toMatchObject({ pausedAt: expect.any(Date), reason: 'a\nbreak' });
    expect((await run(['schedules', 'show', 'daily', ...org], here())).stdout).toMatch(/^reason +a\\nbreak$/m);
    expect((await run(['schedules', 'list', ...org], here())).stdout).toMatch(/ report +paused +never +one +skip$/m);
    expect((await run(['schedules', 'resume', 'daily', ...org], here())).stdout).toMatch(/^Schedule daily runs next at \d{4}-/);
    expect(await stored()).toMatchObject({ pausedAt: null, reason: null });
  });

  it('run submits its job, unless an earlier one has not ended and its runs must not overlap', async () => {
    const { org, stored } = await orgWith('daily');
    const { jobId } = await ask<{ jobId: string }>(['schedules', 'run', 'daily', ...org], here());
    expect(await stored()).toMatchObject({ lastJobId: jobId, nextAt: NEXT });
    const again = await run(['schedules', 'run', 'daily', ...org], here());
    expect([again.code, again.stdout]).toEqual([1, '']);
    expect(again.stderr).toContain(`Job ${jobId} of the schedule "daily" has not ended`);
  });

  it('delete removes it', async () => {
    const { org, stored } = await orgWith('daily');
    expect((await run(['schedules', 'delete', 'daily', ...org], here())).stdout).toBe('Schedule daily is deleted.\n');
    expect(await stored()).toBeUndefined();
  });

  it.each(['show', 'next', 'pause', 'resume', 'run', 'delete'])(
    '%s says that a schedule does not exist, also one of another org',
    async (verb) => {
      const { stored } = await orgWith('daily');
      const { code, stderr } = await run(['schedules', verb, 'daily'], here());
      expect([code, stderr]).toEqual([1, 'error: The schedule "daily" does not exist. Check its key.\n']);
      expect(await stored()).toMatchObject({ pausedAt: null, lastJobId: null });
    },
  );
});
