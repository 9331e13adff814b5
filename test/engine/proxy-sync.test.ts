import { afterEach, expect, test } from 'vitest';
import { HealthPools } from '../../src/egress/health-pools.ts';
import { ProxySync } from '../../src/engine/downloads/proxy-sync.ts';
import { EventHub } from '../../src/engine/events.ts';
import { listProxies, setPoolPaused } from '../../src/ledger/downloads/proxies.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
const opened: ProxySync[] = [];
afterEach(() => Promise.all(opened.splice(0).map((sync) => sync.stop())));

/** The pools of one process. */
function openPools(): HealthPools {
  const pools = new HealthPools({ pools: new Map([['main', ['http://user:hunter2@10.0.0.1:3128']]]) });
  const sync = new ProxySync({ database: ledger.db, events: new EventHub(), pools });
  sync.start();
  opened.push(sync);
  return pools;
}

function report(pools: HealthPools, worked: boolean): void {
  const [found] = pools.routesOf(['main']);
  if (found?.kind === 'usable') found.routes[0]?.report(worked);
}

test('a pool that an operator pauses is paused in every process, and so is its return', async () => {
  const processes = [openPools(), openPools()];
  const kinds = () => processes.map((pools) => pools.routesOf(['main'])[0]?.kind);
  await setPoolPaused(ledger.db.api, 'main', true);
  await until('every process passes over the pool', kinds, ['skipped', 'skipped']);
  await setPoolPaused(ledger.db.api, 'main', false);
  await until('every process uses the pool', kinds, ['usable', 'usable']);
});

test('the counts of all processes add up, without credentials', async () => {
  const [one, other] = [openPools(), openPools()];
  report(one, true);
  report(other, false);
  report(other, true);
  await until('all are counted', async () => (await listProxies(ledger.db.api)).map(({ successes, failures }) => [successes, failures]), [
    [2, 1],
  ]);
  const rows = await listProxies(ledger.db.api);
  expect(rows).toMatchObject([{ pool: 'main', address: 'http://10.0.0.1:3128', ejectedUntil: null }]);
  expect(JSON.stringify(rows)).not.toContain('hunter2');
});
