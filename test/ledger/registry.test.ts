import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { createOrg, DEFAULT_ORG_ID, setOrgCap, summarizeOrgs } from '../../src/ledger/access/orgs.ts';
import { claimAndStartInTurn } from '../../src/ledger/attempts/claim-and-start.ts';
import { lockRoom } from '../../src/ledger/attempts/claim-room.ts';
import { inTransaction, openDatabase } from '../../src/ledger/driver/database.ts';
import { announceType, pauseType, readTypes, resumeType, setTypeConcurrency } from '../../src/ledger/queues/job-types.ts';
import { configureQueue, readQueues } from '../../src/ledger/queues/queues.ts';
import { advanceSchedule, dueSchedules, lockDueSchedule } from '../../src/ledger/queues/schedule-turns.ts';
import { removeSchedule } from '../../src/ledger/queues/schedules.ts';
import { until } from '../until.ts';
import { rangesOf, useLedger } from './fixture.ts';
import { PATIENCE_MS } from './patient.ts';
import { storedSchedules, storeSchedule } from './stored-schedules.ts';

const ledger = useLedger();

describe('job types', () => {
  const typeOf = async (name: string) => (await readTypes(ledger.db.api)).find((type) => type.name === name);

  test('the latest announcement counts and a pause outlives it', async () => {
    const mail = {
      name: 'mail',
      defaults: { maxAttempts: 5, backoff: { multiplier: 3 } },
      concurrency: 2,
      customBackoff: true,
    };
    await announceType(ledger.db.api, mail);
    expect(await typeOf('mail')).toMatchObject({ ...mail, pausedAt: null });
    await pauseType(ledger.db.api, 'mail');
    await announceType(ledger.db.api, { ...mail, defaults: {}, concurrency: null });
    expect(await typeOf('mail')).toMatchObject({ defaults: {}, concurrency: null, pausedAt: expect.any(Date) });
    await resumeType(ledger.db.api, 'mail');
    expect(await typeOf('mail')).toMatchObject({ pausedAt: null });
  });

  test('a type without a worker can be paused and capped, and a second pause keeps the first time', async () => {
    await pauseType(ledger.db.api, 'unheard-of');
    const first = await typeOf('unheard-of');
    await ledger.moveClock(1_000);
    await pauseType(ledger.db.api, 'unheard-of');
    await setTypeConcurrency(ledger.db.api, 'unheard-of', 7);
    expect(await typeOf('unheard-of')).toMatchObject({ pausedAt: first?.pausedAt, concurrency: 7 });
  });
});

describe('queues', () => {
  const queueOf = async (name: string) => (await readQueues(ledger.db.api)).find((queue) => queue.name === name);

  test('what a change does not name stays', async () => {
    await configureQueue(ledger.db.api, { name: 'q:a' });
    const none = { concurrency: null, rate: null, depthCap: null, sloSeconds: null, reservedShare: null, drainingAt: null };
    expect(await queueOf('q:a')).toEqual({ name: 'q:a', order: 'fair', pausedAt: null, limit: null, ...none });
    await configureQueue(ledger.db.api, { name: 'q:a', paused: true });
    await configureQueue(ledger.db.api, { name: 'q:a', order: 'fifo' });
    expect(await queueOf('q:a')).toMatchObject({ order: 'fifo', pausedAt: expect.any(Date) });
    await configureQueue(ledger.db.api, { name: 'q:a', paused: false });
    expect(await queueOf('q:a')).toMatchObject({ order: 'fifo', pausedAt: null });
    await configureQueue(ledger.db.api, { name: 'q:a', concurrency: 3, rate: 0.5, draining: true });
    await configureQueue(ledger.db.api, { name: 'q:a', concurrency: null, sloSeconds: 9 });
    const left = { order: 'fifo', concurrency: null, rate: 0.5, sloSeconds: 9, drainingAt: expect.any(Date) };
    expect(await queueOf('q:a')).toMatchObject(left);
  });
});

describe('orgs', () => {
  test('an org is made once, by id and by slug', async () => {
    const [id, slug] = [randomUUID(), `acme-${randomUUID()}`];
    expect(await createOrg(ledger.db.api, { id, slug })).toBe(true);
    expect(await createOrg(ledger.db.api, { id, slug: `${slug}-2` })).toBe(false);
    expect(await createOrg(ledger.db.api, { id: randomUUID(), slug })).toBe(false);
    expect(await createOrg(ledger.db.api, { id: DEFAULT_ORG_ID, slug: 'another' })).toBe(false);
  });

  test('a cap is set, seen and lifted', async () => {
    const orgId = await ledger.newOrg();
    expect(await summarizeOrgs(ledger.db.api)).toMatchObject({ areCapped: false });
    expect(await setOrgCap(ledger.db.api, orgId, 2)).toBe(true);
    expect(await summarizeOrgs(ledger.db.api)).toMatchObject({ areCapped: true });
    expect(await setOrgCap(ledger.db.api, orgId, null)).toBe(true);
    expect(await setOrgCap(ledger.db.api, randomUUID(), 2)).toBe(false);
  });
});

describe('room under caps', () => {
  const roomOf = (types: string[]) => inTransaction(ledger.db.workers, (client) => lockRoom(client, types));

  test('counts leases that live, of the type and of the org, each job once', async () => {
    const type = 'capped';
    const orgId = await ledger.newOrg();
    await setTypeConcurrency(ledger.db.api, type, 5);
    await setOrgCap(ledger.db.api, orgId, 4);
    const workerId = await ledger.registerWorker();
    const job = await ledger.submitOne({ orgId, type });
    const first = await ledger.start(job, workerId);
    // Started twice by one worker, so it stands in two of its claims.
    await ledger.settle(first, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
    await ledger.start(job, workerId);
    await ledger.putJob('completed', { orgId, type });
    await ledger.lease(await ledger.submitOne({ orgId }));
    const room = await roomOf([type, 'uncapped']);
    expect([...room.types]).toEqual([[type, 4]]);
    expect(room.orgs.get(orgId)).toBe(2);
    await setOrgCap(ledger.db.api, orgId, null);
  });

  test('the second of two claims waits for the first and finds no room left', async () => {
    const type = 'single-file';
    await setTypeConcurrency(ledger.db.api, type, 1);
    await ledger.submitOne({ type });
    await ledger.submitOne({ type });
    const claim = async (client: pg.PoolClient, workerId: number) => {
      const room = await lockRoom(client, [type]);
      const ranges = rangesOf({ jobType: type });
      return (
        await claimAndStartInTurn(client, {
          workerId,
          ranges,
          limit: 8,
          claimNo: 1,
          cursors: [],
          lastTurns: new Map(),
          owned: new Map(),
          room,
        })
      ).jobs.length;
    };
    const [first, second] = [await ledger.registerWorker(), await ledger.registerWorker()];
    let later: Promise<number> | undefined;
    const started = await inTransaction(ledger.db.workers, async (client) => {
      const mine = await claim(client, first);
      later = inTransaction(ledger.db.workers, (other) => claim(other, second), { lockTimeoutMs: PATIENCE_MS });
      await ledger.untilBlocked();
      return mine;
    });
    expect([started, await later]).toEqual([1, 0]);
  });

  test('a process that is frozen within its claim loses the locks before the next one gives up', async () => {
    const type = 'held-up';
    await setTypeConcurrency(ledger.db.api, type, 1);
    // With the limits of the product, which the sessions of the ledger do not have here.
    const database = openDatabase({ url: ledger.db.url });
    onTestFinished(() => database.close());
    await until('a session is open', () =>
      database.workers.query('SELECT 1').then(
        () => true,
        () => false,
      ),
    );
    const frozen = inTransaction(database.workers, async (client) => {
      const ended = new Promise((resolve) => client.once('end', resolve));
      await lockRoom(client, [type]);
      await announceType(ledger.db.api, { name: type, defaults: {}, concurrency: 2, customBackoff: false });
      await ended;
      return lockRoom(client, [type]);
    });
    await expect(frozen).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect([...(await roomOf([type])).types]).toEqual([[type, 2]]);
  });
});

describe('schedules', () => {
  const nightly = (nextAt: Date) => ({
    ...{
      key: 'nightly',
      cron: '0 3 * * *',
      timeZone: 'Europe/Berlin',
      missed: 'one' as const,
      submission: { type: 'report' },
    },
    nextAt,
  });
  const [past, future] = [new Date(Date.now() - 60_000), new Date(Date.now() + 86_400_000)];

  test('a schedule announced again keeps the time it owes, unless its cron changed', async () => {
    const orgId = await ledger.newOrg();
    await storeSchedule(ledger.db.api, orgId, nightly(past));
    const again = await storeSchedule(ledger.db.api, orgId, { ...nightly(future), missed: 'all' });
    expect(again).toMatchObject({ orgId, nextAt: past, missed: 'all', lastFiredAt: null });
    const changed = await storeSchedule(ledger.db.api, orgId, { ...nightly(future), cron: '0 4 * * *' });
    expect(changed.nextAt).toEqual(future);
    expect(await storedSchedules(ledger.db.api, orgId)).toHaveLength(1);
    expect(await storedSchedules(ledger.db.api, await ledger.newOrg())).toEqual([]);
    expect(await removeSchedule(ledger.db.api, wholeOrg(await ledger.newOrg()), 'nightly')).toBeNull();
    expect(await removeSchedule(ledger.db.api, wholeOrg(orgId), 'nightly')).toMatchObject({ key: 'nightly' });
  });

  test('a due schedule is kept from others until it was moved on', async () => {
    const orgId = await ledger.newOrg();
    const jobId = randomUUID();
    await storeSchedule(ledger.db.api, orgId, nightly(past));
    await inTransaction(ledger.db.maintenance, async (client) => {
      const reference = { orgId, key: 'nightly', at: '' };
      const mine = await lockDueSchedule(client, reference);
      expect(mine?.schedule).toMatchObject({ orgId, key: 'nightly', submission: { type: 'report' } });
      expect(mine?.now.getTime()).toBeGreaterThan(past.getTime());
      const others = await inTransaction(ledger.db.maintenance, (other) => lockDueSchedule(other, reference));
      expect(others).toBeNull();
      await advanceSchedule(client, { orgId, key: 'nightly', nextAt: future, fired: { at: past, jobId }, skippedAt: [] });
    });
    expect(await dueSchedules(ledger.db.maintenance, null, 10)).toEqual([]);
    expect(await storedSchedules(ledger.db.api, orgId)).toMatchObject([{ nextAt: future, lastFiredAt: past, lastJobId: jobId }]);
  });

  test('due schedules are read page by page, also those due at the same time', async () => {
    const orgs = await Promise.all([1, 2, 3].map(() => ledger.newOrg()));
    for (const orgId of orgs) {
      for (const key of ['a', 'b']) await storeSchedule(ledger.db.api, orgId, { ...nightly(past), key });
    }
    const seen: string[] = [];
    let page = await dueSchedules(ledger.db.maintenance, null, 2);
    while (page.length > 0) {
      seen.push(...page.map(({ orgId, key }) => `${orgId} ${key}`));
      page = await dueSchedules(ledger.db.maintenance, page.at(-1) ?? null, 2);
    }
    expect(seen).toEqual(orgs.toSorted().flatMap((orgId) => [`${orgId} a`, `${orgId} b`]));
  });
});
