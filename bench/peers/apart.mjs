// node bench/peers/apart.mjs [--quick] [--runs 3] [system ...]: the producer and two workers in processes apart, as people deploy them. Prints the medians
// of the runs, compares Millrace with the others, and fails if it misses a threshold of docs/operations/performance.md.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from '../workload.ts';
import { chooseSystems, measureInProcess, withServers } from './stand.mjs';

const THRESHOLDS = { pickupP50Ms: 3, pickupP99Ms: 12, loadP50Ms: 3, loadP99Ms: 25 };
const DRAIN_RATIO = 1.3;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean', default: false }, runs: { type: 'string', default: '1' } },
});
const size = values.quick
  ? { probes: 100, perSecond: 500, seconds: 3, backlog: 10_000 }
  : { probes: 200, perSecond: 500, seconds: 10, backlog: 20_000 };

async function measure({ name, driver, redisPort }, pgUrl) {
  process.stdout.write(`${name} ... `);
  const script = fileURLToPath(new URL('../apart.ts', import.meta.url));
  const module = new URL(`systems/${driver}.mjs`, import.meta.url).href;
  const row = await measureInProcess(script, [module, JSON.stringify({ pgUrl, redisPort, size })]);
  console.log(`${row.missing} jobs missing`);
  return row;
}

function medians(name, rows) {
  const of = (key) => Number(median(rows.map((row) => row[key])).toFixed(1));
  return { system: name, ...Object.fromEntries(Object.keys(rows[0]).map((key) => [key, of(key)])) };
}

/** Prints each threshold and returns whether all of them were met. */
function judge(rows) {
  const own = rows.find(({ system }) => system === 'millrace');
  if (own === undefined) return true;
  const verdicts = Object.entries(THRESHOLDS).map(([key, most]) => [`${key} <= ${most}`, own[key], own[key] <= most]);
  const others = rows.filter((row) => row !== own).toSorted((one, other) => other.drainPerSecond - one.drainPerSecond);
  const [best] = others;
  if (best !== undefined) {
    const ratio = own.drainPerSecond / best.drainPerSecond;
    verdicts.push([`drain >= ${DRAIN_RATIO} x ${best.system}`, ratio.toFixed(2), ratio >= DRAIN_RATIO]);
  }
  for (const [threshold, measured, isMet] of verdicts) console.log(`${isMet ? 'ok    ' : 'MISSED'} ${threshold}: ${measured}`);
  return verdicts.every(([, , isMet]) => isMet);
}

const systems = chooseSystems(positionals);
const measured = new Map(systems.map(({ name }) => [name, []]));
for (let run = 0; run < Number(values.runs); run++) {
  // With new servers each time, so that no run finds what the one before left.
  await withServers(systems, async (scratch) => {
    for (const [index, system] of systems.entries())
      measured.get(system.name).push(await measure(system, await scratch.fresh(`apart_${index}`)));
  });
}
const rows = [...measured].map(([name, each]) => medians(name, each));
console.table(rows);
process.exitCode = judge(rows) ? 0 : 1;
