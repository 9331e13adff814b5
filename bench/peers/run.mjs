// node bench/peers/run.mjs [--quick] [system ...]
import { fileURLToPath } from 'node:url';
import { chooseSystems, measureInProcess, withServers } from './stand.mjs';

const RATES = { submit: 'submitPerSecond', batches: 'batchPerSecond', drain: 'drainPerSecond' };

const args = process.argv.slice(2);
const isQuick = args.includes('--quick');
const work = isQuick ? { singles: 4_000, batches: 8 } : { singles: 10_000, batches: 20 };

async function measure({ name, driver, redisPort }, pgUrl) {
  process.stdout.write(`${name} ... `);
  const script = fileURLToPath(new URL('measure.mjs', import.meta.url));
  const row = await measureInProcess(script, [driver, JSON.stringify({ ...work, pgUrl, redisPort })]);
  console.log(`drained ${row.drained}`);
  return { system: name, ...row };
}

function printRatios(rows) {
  const own = rows.find(({ system }) => system === 'millrace');
  const others = rows.filter((row) => row !== own);
  if (own === undefined || others.length === 0) return;
  const ratios = Object.entries(RATES).map(([word, key]) => {
    const best = others.toSorted((one, other) => other[key] - one[key])[0];
    return `${word} ${(own[key] / best[key]).toFixed(2)} (${best.system})`;
  });
  console.log(`Times the best of the others: ${ratios.join(', ')}`);
}

const systems = chooseSystems(args.filter((arg) => !arg.startsWith('--')));
await withServers(systems, async (scratch) => {
  const rows = [];
  for (const system of systems) rows.push(await measure(system, await scratch.fresh(`peer_${rows.length}`)));
  console.table(rows);
  printRatios(rows);
});
