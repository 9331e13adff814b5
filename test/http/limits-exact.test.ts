import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import { setOrgRate } from '../../src/ledger/access/orgs.ts';
import { leasePermits } from '../../src/ledger/access/rate-leases.ts';
import { openRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { watchStatements } from './auth-fixture.ts';
import { allowedOf, letPass, moveIntoMinute, openLimiter, takeMany } from './limits-fixture.ts';

const ledger = useLedger();
// No minute ends while a test counts.
beforeEach(() => moveIntoMinute(ledger, 1_000));

describe('the limit of an org', () => {
  it('is 600 a minute, exactly, over two processes that are asked at once', async () => {
    const orgId = await ledger.newOrg();
    const limiters = [openLimiter(ledger), openLimiter(ledger)];
    const verdicts = (await Promise.all(limiters.map((limiter) => takeMany(limiter, orgId, 1_000)))).flat();
    expect(allowedOf(verdicts)).toBe(600);
    expect(verdicts.every(({ limit, resetMs }) => limit === 600 && resetMs > 0 && resetMs <= 60_000)).toBe(true);
  });

  it('is exact for any limit, any number of processes and any order of their requests', async () => {
    const scenario = fc.record({
      limit: fc.integer({ min: 1, max: 120 }),
      processes: fc.integer({ min: 1, max: 3 }),
      bursts: fc.array(fc.record({ by: fc.nat(2), count: fc.integer({ min: 1, max: 40 }) }), { maxLength: 15 }),
    });
    const limiters = new Map<number, OrgRateLimiter[]>();
    const limitersFor = (limit: number) => {
      const made = limiters.get(limit) ?? [0, 1, 2].map(() => new OrgRateLimiter({ database: ledger.db, requestsPerMinute: limit }));
      limiters.set(limit, made);
      return made;
    };
    await fc.assert(
      fc.asyncProperty(scenario, async ({ limit, processes, bursts }) => {
        const orgId = await ledger.newOrg();
        const used = limitersFor(limit).slice(0, processes);
        let allowed = 0;
        for (const { by, count } of bursts) {
          allowed += allowedOf(await takeMany(used[by % processes] as OrgRateLimiter, orgId, count));
          expect(allowed).toBeLessThanOrEqual(limit);
        }
        // Whoever holds permits uses them now: together they let through what is left and nothing more.
        const rest = await Promise.all(used.map((limiter) => takeMany(limiter, orgId, limit + 1)));
        expect(allowed + allowedOf(rest.flat())).toBe(limit);
      }),
      { numRuns: 40 },
    );
  });

  it('costs the ledger a statement now and then, not one for each request', async () => {
    const orgId = await ledger.newOrg();
    const limiter = openLimiter(ledger, 100_000);
    const statements = watchStatements();
    for (let round = 0; round < 200; round++) expect(allowedOf(await takeMany(limiter, orgId, 50))).toBe(50);
    expect(statements.length).toBeLessThan(20);
    expect(new Set(statements)).toEqual(new Set(['lease_permits']));
  });

  it('is judged without the ledger once it is reached', async () => {
    const orgId = await ledger.newOrg();
    const limiter = openLimiter(ledger, 5);
    expect(allowedOf(await takeMany(limiter, orgId, 6))).toBe(5);
    const statements = watchStatements();
    expect(allowedOf(await takeMany(limiter, orgId, 100))).toBe(0);
    expect(statements).toEqual([]);
  });

  it('is its own: what one org uses another keeps', async () => {
    const [busy, calm] = [await ledger.newOrg(), await ledger.newOrg()];
    const limiter = openLimiter(ledger, 10);
    expect(allowedOf(await takeMany(limiter, busy, 50))).toBe(10);
    expect(allowedOf(await takeMany(limiter, calm, 10))).toBe(10);
  });

  it('may differ from the configured one', async () => {
    const [small, large] = [await ledger.newOrg(), await ledger.newOrg()];
    await setOrgRate(ledger.db.api, small, 3);
    await setOrgRate(ledger.db.api, large, 30);
    const limiter = openLimiter(ledger, 10);
    const verdicts = await takeMany(limiter, small, 50);
    expect([allowedOf(verdicts), verdicts.at(-1)?.limit]).toEqual([3, 3]);
    expect(allowedOf(await takeMany(limiter, large, 50))).toBe(30);
  });

  it('is counted down', async () => {
    const orgId = await ledger.newOrg();
    const limiter = openLimiter(ledger, 10);
    const remaining: number[] = [];
    for (let call = 0; call < 11; call++) remaining.push((await limiter.take(orgId)).remaining);
    expect(remaining).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]);
  });
});

describe('the window', () => {
  it('ends with the minute of the ledger, together with used and unused permits', async () => {
    await moveIntoMinute(ledger, 30_000);
    const orgId = await ledger.newOrg();
    const [one, two] = [openLimiter(ledger, 20), openLimiter(ledger, 20)];
    expect(allowedOf(await takeMany(one, orgId, 25))).toBe(20);
    const denied = await two.take(orgId);
    expect(denied).toMatchObject({ allowed: false, remaining: 0 });
    expect(denied.resetMs).toBeLessThanOrEqual(30_000);
    await letPass(ledger, 30_000);
    const rest = await Promise.all([takeMany(one, orgId, 30), takeMany(two, orgId, 30)]);
    expect(allowedOf(rest.flat())).toBe(20);
  });

  it('takes with it the permits that a process holds unused', async () => {
    await moveIntoMinute(ledger, 30_000);
    const orgId = await ledger.newOrg();
    const limiter = openLimiter(ledger, 100);
    const statements = watchStatements();
    await limiter.take(orgId);
    await until('the second block of permits has been leased', () => statements.length, 2);
    await letPass(ledger, 30_000);
    expect(allowedOf(await takeMany(limiter, orgId, 200))).toBe(100);
  });

  it('gives nothing to who comes late from the minute before, and is not begun again for him', async () => {
    const orgId = await ledger.newOrg();
    const lease = async (wanted: number) => (await leasePermits(ledger.db.api, [{ orgId, wanted }], 10))[0];
    expect(await lease(4)).toMatchObject({ granted: 4, leased: 4, maximum: 10 });
    await ledger.moveClock(60_000);
    expect(await lease(7)).toMatchObject({ granted: 7, leased: 7 });
    await ledger.moveClock(-60_000);
    expect(await lease(5)).toMatchObject({ granted: 0, leased: 7 });
    await ledger.moveClock(60_000);
    expect(await lease(5)).toMatchObject({ granted: 3, leased: 10 });
  });

  it('begins anew after a clock that was wrong is put right', async () => {
    const orgId = await ledger.newOrg();
    const lease = async () => (await leasePermits(ledger.db.api, [{ orgId, wanted: 10 }], 10))[0];
    await ledger.moveClock(86_400_000);
    expect(await lease()).toMatchObject({ granted: 10 });
    await ledger.moveClock(-86_400_000);
    expect(await lease()).toMatchObject({ granted: 10, leased: 10 });
  });

  it('respects a limit that was lowered meanwhile', async () => {
    const orgId = await ledger.newOrg();
    const lease = async (maximum: number) => (await leasePermits(ledger.db.api, [{ orgId, wanted: 6 }], maximum))[0];
    expect(await lease(10)).toMatchObject({ granted: 6 });
    expect(await lease(5)).toMatchObject({ granted: 0, leased: 6, maximum: 5 });
    expect(await lease(20)).toMatchObject({ granted: 6, leased: 12, maximum: 20 });
  });

  it('is leased for several orgs in one statement; one that does not exist gets nothing', async () => {
    const [first, second, missing] = [await ledger.newOrg(), await ledger.newOrg(), '99999999-9999-4999-8999-999999999999'];
    const wants = [second, missing, first].map((orgId) => ({ orgId, wanted: 2 }));
    const leases = await leasePermits(ledger.db.api, wants, 10);
    expect(new Set(leases.map(({ orgId, granted }) => `${orgId} ${granted}`))).toEqual(new Set([`${first} 2`, `${second} 2`]));
    expect(await openLimiter(ledger).take(missing)).toMatchObject({ allowed: false });
  });
});

describe('without the database', () => {
  const outcome = (taken: ReturnType<OrgRateLimiter['take']>): Promise<string> =>
    Promise.resolve(taken).then(
      ({ allowed }) => (allowed ? 'allowed' : 'denied'),
      (error) => error.code,
    );

  it('the last lease still serves, then nothing passes, and requests pass again afterwards', async () => {
    const { road, database } = await openRoad(ledger.db.url);
    const limiter = new OrgRateLimiter({ database, requestsPerMinute: 1_000 });
    const orgId = await ledger.newOrg();
    await limiter.take(orgId);
    await road.close();
    const outcomes: string[] = [];
    await until('the limiter has run out of permits', async () => {
      outcomes.push(await outcome(limiter.take(orgId)));
      return outcomes.at(-1) === 'UNAVAILABLE';
    });
    expect(new Set(outcomes)).toEqual(new Set(['allowed', 'UNAVAILABLE']));
    expect(outcomes.length).toBeGreaterThan(5);
    await road.open();
    await until('the limiter allows requests again', () => outcome(limiter.take(orgId)), 'allowed');
  });

  it('a caller does not wait for one that is silent until its statement is given up', async () => {
    const { road, database } = await openRoad(ledger.db.url);
    const limiter = new OrgRateLimiter({ database });
    await limiter.take(await ledger.newOrg());
    const orgId = await ledger.newOrg();
    road.block();
    expect(await outcome(limiter.take(orgId))).toBe('UNAVAILABLE');
    // Its session still waits.
    expect(database.api.totalCount - database.api.idleCount).toBeGreaterThan(0);
    road.unblock();
    await until('the limiter allows requests again', () => outcome(limiter.take(orgId)), 'allowed');
  });
});
