// node bench/webhooks.ts [--quick]: ten endpoints that answer, alone and then beside ninety that never do. Measures from a job's end to
// the arrival of its event where endpoints answer, and how many jobs are done a second meanwhile. Fails when the ninety are felt.
import { randomBytes, randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { composeDeliveries, openEgress } from '../src/cli/deliveries.ts';
import { loadConfig } from '../src/config/load-config.ts';
import { Engine } from '../src/engine/engine.ts';
import { openDatabase } from '../src/ledger/database.ts';
import { migrate } from '../src/ledger/migrate.ts';
import { insertWebhook } from '../src/ledger/webhooks.ts';
import { createOrg } from '../src/services/create-org.ts';
import { submitMany } from '../src/services/submit-many.ts';
import { openScratch } from './scratch-database.ts';
import { openEndpoints } from './webhook-endpoints.ts';

const HEALTHY = 10;
const HANGING = 90;
const EVERY_MS = 500;
const BATCH = 1_000;
const MAX_RATIO = 1.2;

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const forMs = values.quick ? 10_000 : 60_000;
const batches = values.quick ? 5 : 20;

const scratch = await openScratch();
const endpoints = await openEndpoints();
const database = openDatabase({ url: await scratch.fresh('webhooks') });
const { config } = loadConfig({ environment: { MILLRACE_EGRESS_ALLOW: '127.0.0.0/8' }, folder: tmpdir() });
await migrate(database.maintenance);
const engine = new Engine({ database, profile: config.profile, concurrency: 64 });
engine.registry.register({ type: 'noop', handler: () => {} });
const deliveries = composeDeliveries({ engine, config, egress: openEgress(config) });
await engine.open();
await engine.start();
await deliveries.start();

const newOrgs = (name: string, count: number) =>
  Promise.all(
    Array.from({ length: count }, async (_, no) => (await createOrg(database, { slug: `${name}-${no}` })).id),
  );

async function registerAll(orgs: readonly string[], path: string): Promise<void> {
  for (const orgId of orgs) {
    await insertWebhook(database.api, orgId, {
      ...{ id: randomUUID(), url: `${endpoints.url}${path}`, events: ['job.succeeded'], description: null },
      ...{ secret: randomBytes(24), createdAt: new Date(), atMost: 100 },
    });
  }
}

/** Every org submits a job twice a second; answers the times that the events took. */
async function steady(orgs: readonly string[]): Promise<number[]> {
  await endpoints.take();
  const endMs = performance.now() + forMs;
  for (let at = 0; performance.now() < endMs; at = (at + 1) % orgs.length) {
    void engine.submitter.submit(orgs[at] as string, { type: 'noop', payload: {} }, null);
    await delay(EVERY_MS / orgs.length);
  }
  await delay(500);
  return endpoints.take();
}

/** Jobs a second of an org that nobody is told about. */
async function drain(orgId: string): Promise<number> {
  let done = 0;
  const finished = Promise.withResolvers<void>();
  const stop = engine.events.on('completed', ({ orgId: of }) => {
    if (of === orgId && ++done === batches * BATCH) finished.resolve();
  });
  const startedMs = performance.now();
  const submissions = Array.from({ length: BATCH }, () => ({ type: 'noop', payload: {} }));
  for (let batch = 0; batch < batches; batch++)
    await submitMany(engine, { orgId, submissions, atomic: true, actor: null });
  await finished.promise;
  stop();
  return (batches * BATCH * 1_000) / (performance.now() - startedMs);
}

function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

async function phase(name: string, orgs: readonly string[], silent: string) {
  const times = (await steady(orgs)).sort((a, b) => a - b);
  const rates = [await drain(silent), await drain(silent), await drain(silent)].sort((a, b) => a - b);
  const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)];
  return { phase: name, events: times.length, p50, p99, 'jobs/s': Math.round(rates[1] as number) };
}

try {
  const [healthy, hanging] = [await newOrgs('healthy', HEALTHY), await newOrgs('hanging', HANGING)];
  const [silent = ''] = await newOrgs('silent', 1);
  const orgs = [...healthy, ...hanging];
  await registerAll(healthy, '/ok');
  await phase('warming up', orgs, silent);
  const alone = await phase('ten alone', orgs, silent);
  await registerAll(hanging, '/hang');
  const beside = await phase('beside ninety that hang', orgs, silent);
  console.table([alone, beside]);
  const ratio = beside.p99 / alone.p99;
  const share = beside['jobs/s'] / alone['jobs/s'];
  console.log(`p99 ${ratio.toFixed(2)} times as long, jobs at ${(share * 100).toFixed(0)} % of the rate`);
  if (ratio > MAX_RATIO) process.exitCode = 1;
} finally {
  await deliveries.stop();
  await engine.close(0);
  await database.close();
  await endpoints.close();
  await scratch.close();
}
