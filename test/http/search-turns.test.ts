import { expect, it, onTestFinished } from 'vitest';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

/** From now on the searches of the org keep their connections until the gate opens. */
function hold(orgId: string): Gate {
  const gate = new Gate();
  const { searching: pool, searches } = queue.ledger.db;
  const of = searches.of.bind(searches);
  onTestFinished(() => {
    searches.of = of;
  });
  searches.of = (org) => ({
    ...of(org),
    async query(config) {
      if (org !== orgId) return of(org).query(config);
      const client = await pool.connect();
      await gate.pass();
      client.release();
      return of(org).query(config);
    },
  });
  return gate;
}

it('twenty heavy searches of one org leave connections for the search of another', async () => {
  const pool = queue.ledger.db.searching;
  const [hostile, other] = [await queue.caller(), await queue.caller()];
  await other.submit();
  const gate = hold(hostile.orgId);
  const heavy = Array.from({ length: 20 }, () => hostile.post('/jobs/search', {}));
  await until(
    'the searches of the hostile org run',
    () => pool.totalCount - pool.idleCount,
    (busy) => busy >= Math.ceil(pool.options.max / 2),
  );
  expect((await other.post('/jobs/search', {})).body.jobs).toHaveLength(1);
  expect((await other.get('/stats')).status).toBe(200);
  expect((await other.post('/failures/search', {})).status).toBe(200);
  gate.open();
  expect(new Set((await Promise.all(heavy)).map(({ status }) => status))).toEqual(new Set([200]));
});

it('an org that sends searches faster than they are served is refused, and another org is not', async () => {
  const [hostile, other] = [await queue.caller(), await queue.caller()];
  const gate = hold(hostile.orgId);
  const running = Math.ceil(queue.ledger.db.searching.options.max / 2);
  const heavy = Array.from({ length: running + 101 }, () => hostile.post('/jobs/search', {}));
  const refused = await Promise.race(heavy);
  expect([refused.status, refused.body.quota.limit, refused.headers.get('retry-after')]).toEqual([429, 'org_searches', '1']);
  expect(refused.body.message).toContain('limits.org_share');
  expect((await other.post('/jobs/search', {})).status).toBe(200);
  gate.open();
  await Promise.all(heavy);
});
