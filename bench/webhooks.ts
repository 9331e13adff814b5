// node bench/webhooks.ts [--quick]: delivers events to ten endpoints that respond, first alone, then together with endpoints that hang:
// ninety of them, more than twice as many as there are slots, and one client whose jobs each have a different callback URL. Measures the
// time from the end of a job to the arrival of its event, and the jobs per second. Fails if the hanging endpoints slow these down.
import { randomBytes, randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { loadConfig } from '../src/config/load-config.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { migrate } from '../src/ledger/driver/migrate.ts';
import { insertWebhook } from '../src/ledger/webhooks/webhooks.ts';
import { composeDeliveries, openEgress } from '../src/platform/deliveries.ts';
import { createOrg } from '../src/services/access/create-org.ts';
import { createEngine } from '../src/services/jobs/create-engine.ts';
import { submitJob } from '../src/services/jobs/submit-job.ts';
import { submitMany } from '../src/services/jobs/submit-many.ts';
import { openScratch } from './scratch-database.ts';
import { type Arrival, openEndpoints } from './webhook-endpoints.ts';
import { breakdown, quantile, timesOf } from './webhook-parts.ts';

const HEALTHY = 10;
const HANGING = 90;
/** More hanging endpoints for each org: in total over twice as many as there are slots. */
const MORE_EACH = 5;
const CALLBACKS = 600;
const EVERY_MS = 500;
const BATCH = 1_000;
const MAX_RATIO = 1.2;
const TELL_EVERY_MS = 5_000;

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const forMs = values.quick ? 10_000 : 60_000;
const batches = values.quick ? 5 : 20;

const progress = (line: string) => console.error(`${(performance.now() / 1_000).toFixed(0)} s: ${line}`);

const scratch = await openScratch();
const endpoints = await openEndpoints();
const database = openDatabase({ url: await scratch.fresh('webhooks') });
const { config } = loadConfig({
  environment: { MILLRACE_EGRESS_ALLOW: '127.0.0.0/8', MILLRACE_WEBHOOKS_HOST_RATE: '1000000', MILLRACE_WEBHOOKS_VERIFY: 'false' },
  folder: tmpdir(),
});
await migrate(database.maintenance);
const engine = createEngine({ database, profile: config.profile, concurrency: 64 });
engine.registry.register({ type: 'noop', handler: () => {} });
const deliveries = composeDeliveries({ engine, config, egress: openEgress(config) });
await engine.open();
await engine.start();
await deliveries.start();

const newOrgs = (name: string, count: number) =>
  Promise.all(Array.from({ length: count }, async (_, no) => (await createOrg(database, { slug: `${name}-${no}` })).id));

async function registerAll(orgs: readonly string[], path: string): Promise<void> {
  for (const orgId of orgs) {
    await insertWebhook(database.api, orgId, {
      id: randomUUID(),
      url: `${endpoints.url}${path}`,
      events: ['job.succeeded'],
      description: null,
      secret: randomBytes(24),
      createdAt: new Date(),
      atMost: 100,
    });
  }
}

/** Submits jobs of one client. Each has a different callback URL at a host that hangs. */
async function nameCallbacks(orgId: string): Promise<void> {
  const submissions = Array.from({ length: CALLBACKS }, (_, no) => ({
    type: 'noop',
    payload: {},
    callbackUrl: `${endpoints.url}/hang?job=${no}`,
  }));
  await submitMany(engine, { orgId, submissions, atomic: true, actor: null });
  // The measurement is about hanging endpoints, not about the burst of submissions.
  const made = `SELECT count(*)::int4 AS made FROM millrace.webhook_lanes WHERE org_id = $1`;
  while ((await database.maintenance.query(made, [orgId])).rows[0].made < CALLBACKS) await delay(100);
}

/** Every org submits a job twice a second. Returns the events that arrived. */
async function steady(name: string, orgs: readonly string[]): Promise<Arrival[]> {
  await endpoints.take();
  const arrivals: Arrival[] = [];
  const startMs = performance.now();
  let toldMs = startMs;
  for (let at = 0; performance.now() < startMs + forMs; at = (at + 1) % orgs.length) {
    void submitJob(engine, { orgId: orgs[at] as string, submission: { type: 'noop', payload: {} }, actor: null });
    await delay(EVERY_MS / orgs.length);
    if (performance.now() - toldMs < TELL_EVERY_MS) continue;
    toldMs = performance.now();
    arrivals.push(...(await endpoints.take()));
    progress(`${name}: ${Math.round((toldMs - startMs) / 1_000)} of ${forMs / 1_000} s, ${arrivals.length} deliveries`);
  }
  await delay(500);
  arrivals.push(...(await endpoints.take()));
  return arrivals;
}

/** Returns the jobs per second of an org without webhooks. */
async function drain(orgId: string): Promise<number> {
  let done = 0;
  const finished = Promise.withResolvers<void>();
  const stop = engine.events.on('completed', ({ orgId: of }) => {
    if (of === orgId && ++done === batches * BATCH) finished.resolve();
  });
  const startedMs = performance.now();
  const submissions = Array.from({ length: BATCH }, () => ({ type: 'noop', payload: {} }));
  for (let batch = 0; batch < batches; batch++) await submitMany(engine, { orgId, submissions, atomic: true, actor: null });
  await finished.promise;
  stop();
  return (batches * BATCH * 1_000) / (performance.now() - startedMs);
}

async function phase(name: string, orgs: readonly string[], silent: string) {
  const times = await timesOf(database.maintenance, await steady(name, orgs));
  progress(`${name}: draining`);
  const rates = [await drain(silent), await drain(silent), await drain(silent)].sort((a, b) => a - b);
  const [p50, p99] = [quantile(times, 'total', 0.5), quantile(times, 'total', 0.99)];
  return { name, times, summary: { events: times.length, p50, p99, 'jobs/s': Math.round(rates[1] as number) } };
}

function show(phases: readonly Awaited<ReturnType<typeof phase>>[]): void {
  console.table(Object.fromEntries(phases.map(({ name, summary }) => [name, summary])));
  console.log('of which, in ms: job ended -> dispatched -> promoted to a job -> started -> arrived');
  for (const { name, times } of phases) {
    const rows = Object.entries(breakdown(times)).map(([row, parts]) => [`${name}, ${row}`, parts]);
    console.table(Object.fromEntries(rows));
  }
}

try {
  const [healthy, hanging] = [await newOrgs('healthy', HEALTHY), await newOrgs('hanging', HANGING)];
  const [silent = ''] = await newOrgs('silent', 1);
  const orgs = [...healthy, ...hanging];
  await registerAll(healthy, '/ok');
  await phase('warming up', orgs, silent);
  const alone = await phase('ten alone', orgs, silent);
  await registerAll(hanging, '/hang');
  const ninety = await phase('beside ninety that hang', orgs, silent);
  for (let no = 0; no < MORE_EACH; no++) await registerAll(hanging, `/hang/${no}`);
  const many = await phase(`beside ${HANGING * (MORE_EACH + 1)} that hang`, orgs, silent);
  const [client = ''] = await newOrgs('client', 1);
  await nameCallbacks(client);
  const callbacks = await phase(`and beside ${CALLBACKS} callback URLs of one client that hang`, orgs, silent);
  show([alone, ninety, many, callbacks]);
  for (const beside of [ninety, many, callbacks]) {
    const ratio = beside.summary.p99 / alone.summary.p99;
    const share = beside.summary['jobs/s'] / alone.summary['jobs/s'];
    console.log(`${beside.name}: p99 ${ratio.toFixed(2)} times as long, jobs at ${(share * 100).toFixed(0)} % of the rate`);
    if (ratio > MAX_RATIO) process.exitCode = 1;
  }
} finally {
  await deliveries.stop();
  await engine.close(0);
  await database.close();
  await endpoints.close();
  await scratch.close();
}
