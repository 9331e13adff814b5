import { expect, it } from 'vitest';
import { LOCK_JOBS, whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';
import { useExecution } from './execution-fixture.ts';

const server = useExecution({}, { searches: false });

const SEARCHES = [
  ['GET', '/v1/jobs'],
  ['GET', '/queue/v1/jobs'],
  ['POST', '/queue/v1/jobs/search'],
  ['POST', '/queue/v1/failures/search'],
] as const;

it.each(SEARCHES)('%s %s keeps no connection of those that write, and has less time than they', async (method, path) => {
  const { key } = await server.client();
  const search = () =>
    fetch(server.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: method === 'POST' ? '{}' : undefined,
    });
  expect((await search()).status).toBe(200);
  const held = await whileHolding({ url: server.ledger.db.url, text: LOCK_JOBS }, async () => {
    const answer = search();
    const blocked = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
      AND application_name = 'millrace searcher'`;
    await until('the search waits', async () => (await server.ledger.db.maintenance.query(blocked)).rowCount, 1);
    return { answer };
  });
  expect((await held.answer).status).toBe(200);
  const { rows } = await server.ledger.db.searching.query('SHOW statement_timeout');
  expect(rows).toEqual([{ statement_timeout: '2s' }]);
});
