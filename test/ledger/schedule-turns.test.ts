import { describe, expect, it } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { openJobs, rememberJob } from '../../src/ledger/queues/schedule-turns.ts';
import { removeSchedule } from '../../src/ledger/queues/schedules.ts';
import { useLedger } from './fixture.ts';
import { storeSchedule } from './stored-schedules.ts';

const ledger = useLedger();
const ROWS = 'SELECT count(*)::int4 AS n FROM millrace.schedule_jobs WHERE org_id = $1';

/** A schedule with jobs in these states. */
async function scheduleWith(...states: Parameters<typeof ledger.putJob>[0][]) {
  const orgId = await ledger.newOrg();
  const named = { orgId, key: 's' };
  await storeSchedule(ledger.db.api, orgId, {
    ...{ key: 's', cron: '@daily', timeZone: 'UTC', missed: 'one', submission: { type: 't', payload: {} } },
    nextAt: new Date(Date.now() + 86_400_000),
  });
  const ids: string[] = [];
  for (const state of states) {
    const { id } = await ledger.putJob(state, { orgId });
    await rememberJob(ledger.db.api, named, id);
    ids.push(id);
  }
  const look = (limit: number) => inTransaction(ledger.db.maintenance, (client) => openJobs(client, named, limit));
  const left = async (): Promise<number> => (await ledger.db.api.query(ROWS, [orgId])).rows[0].n;
  return { ...named, ids, look, left };
}

describe('the jobs of a schedule', () => {
  it('are those that have not ended, oldest first, and the others are forgotten', async () => {
    const { ids, look, left } = await scheduleWith(
      'scheduled',
      'completed',
      'running',
      'failed',
      'delayed',
      'cancelled',
      'dead_letter',
      'retrying',
    );
    expect(await look(100)).toEqual({ ids: [ids[0], ids[2], ids[4], ids[7]], forgotten: 4, isAll: true });
    expect(await left()).toBe(4);
    expect(await look(100)).toMatchObject({ forgotten: 0, isAll: true });
  });

  it('are looked at in pages', async () => {
    const { ids, look } = await scheduleWith('completed', 'completed', 'scheduled', 'scheduled');
    expect(await look(2)).toEqual({ ids: [], forgotten: 2, isAll: false });
    expect(await look(1)).toEqual({ ids: [ids[2]], forgotten: 0, isAll: false });
  });

  it('are forgotten when they were removed, and with the schedule', async () => {
    const { orgId, ids, look, left } = await scheduleWith('completed', 'scheduled');
    await ledger.db.api.query('DELETE FROM millrace.jobs WHERE id = $1', [ids[0]]);
    expect(await look(10)).toEqual({ ids: [ids[1]], forgotten: 1, isAll: true });
    await removeSchedule(ledger.db.api, wholeOrg(orgId), 's');
    expect(await left()).toBe(0);
  });

  it('belong to its org', async () => {
    const { look, orgId, key } = await scheduleWith();
    const { id } = await ledger.putJob('scheduled');
    await rememberJob(ledger.db.api, { orgId, key }, id);
    expect(await look(10)).toEqual({ ids: [], forgotten: 0, isAll: true });
  });
});
