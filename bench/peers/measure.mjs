// One system, all the work. Told by the driver's name and its settings; prints one line of JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import { median, percentile } from '../workload.ts';

const CALLERS = 64;
const BATCH = 1_000;
const PROBES = 150;
const PROBE_EVERY_MS = 20;
const DRAIN_LIMIT_MS = 90_000;

const [driver, settings] = process.argv.slice(2);
const { singles, batches, ...connection } = JSON.parse(settings);
const { open } = await import(`./systems/${driver}.mjs`);
const system = await open(connection);

const payload = (i) => ({ i, to: 'someone@example.com', template: 'welcome', at: Date.now() });
const nowMs = () => performance.timeOrigin + performance.now();
const perSecond = (count, startedMs) => Math.round((count / (nowMs() - startedMs)) * 1_000);

async function submitSingles() {
  let next = 0;
  const startedMs = nowMs();
  const caller = async () => {
    while (next < singles) await system.submit(payload(next++));
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return perSecond(singles, startedMs);
}

async function submitBatches() {
  const startedMs = nowMs();
  for (let n = 0; n < batches; n++) await system.submitBatch(Array.from({ length: BATCH }, (_, i) => payload(i)));
  return perSecond(batches * BATCH, startedMs);
}

const total = singles + batches * BATCH;
const pickups = [];
const drained = Promise.withResolvers();
let done = 0;

async function onJob({ probe }) {
  if (probe !== undefined) pickups.push(nowMs() - probe);
  else if (++done === total) drained.resolve();
}

async function drain() {
  const cpu = process.cpuUsage();
  const startedMs = nowMs();
  await system.work(onJob, { concurrency: CALLERS });
  await Promise.race([drained.promise, sleep(DRAIN_LIMIT_MS, undefined, { ref: false })]);
  const drainPerSecond = perSecond(done, startedMs);
  const { user, system: kernel } = process.cpuUsage(cpu);
  return { drainPerSecond, drained: `${done}/${total}`, cpuUsPerJob: Math.round((user + kernel) / done) };
}

/** From submit to handler, on a queue that has nothing else to do. */
async function pickup() {
  await sleep(1_500);
  for (let n = 0; n < PROBES; n++) {
    await system.submit({ probe: nowMs() });
    await sleep(PROBE_EVERY_MS);
  }
  await sleep(2_500);
  if (pickups.length < PROBES) console.error(`${driver}: ${PROBES - pickups.length} of ${PROBES} probes did not arrive`);
  const rounded = (ms) => Number(ms.toFixed(2));
  return { pickupP50Ms: rounded(median(pickups)), pickupP99Ms: rounded(percentile(pickups, 0.99)) };
}

const submitPerSecond = await submitSingles();
const batchPerSecond = await submitBatches();
const row = { submitPerSecond, batchPerSecond, ...(await drain()), ...(await pickup()) };
console.log(JSON.stringify({ ...row, rssMb: Math.round(process.memoryUsage().rss / 1e6) }));
await Promise.race([system.close(), sleep(3_000, undefined, { ref: false })]);
process.exit(0);
