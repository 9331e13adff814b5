// node bench/peers/run.mjs [--quick] [system ...]
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openScratch } from '../scratch-database.ts';

const EVERY_SECOND = 55_441;
const ALWAYS = 55_442;
const SYSTEMS = {
  millrace: { driver: 'millrace' },
  'graphile-worker': { driver: 'graphile-worker' },
  'pg-boss': { driver: 'pg-boss' },
  'bullmq on PostgreSQL': { driver: 'bullmq' },
  'bullmq on Redis, fsync every second': { driver: 'bullmq', redisPort: EVERY_SECOND },
  'bullmq on Redis, fsync always': { driver: 'bullmq', redisPort: ALWAYS },
};
const RATES = { submit: 'submitPerSecond', batches: 'batchPerSecond', drain: 'drainPerSecond' };

const args = process.argv.slice(2);
const isQuick = args.includes('--quick');
const named = args.filter((arg) => !arg.startsWith('--'));
const work = isQuick ? { singles: 4_000, batches: 8 } : { singles: 10_000, batches: 20 };

function chosen() {
  for (const name of named)
    if (!Object.keys(SYSTEMS).some((system) => system.startsWith(name)))
      throw new Error(`There is no system ${name}: name the beginning of one of ${Object.keys(SYSTEMS).join('; ')}.`);
  const wanted = Object.entries(SYSTEMS).filter(
    ([name]) => named.length === 0 || named.some((each) => name.startsWith(each)),
  );
  if (hasRedis()) return wanted;
  const possible = wanted.filter(([, { redisPort }]) => redisPort === undefined);
  if (possible.length < wanted.length) console.log('redis-server is not installed: the rows on Redis are left out.');
  return possible;
}

function hasRedis() {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

async function startRedis(folder) {
  const policies = [
    [EVERY_SECOND, 'everysec'],
    [ALWAYS, 'always'],
  ];
  const servers = policies.map(([port, fsync]) => {
    const storage = [
      '--dir',
      folder,
      '--save',
      '',
      '--appendonly',
      'yes',
      '--appendfsync',
      fsync,
      '--appenddirname',
      fsync,
    ];
    return spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', ...storage], { stdio: 'ignore' });
  });
  await sleep(800);
  return servers;
}

async function measure([name, { driver, redisPort }], pgUrl) {
  process.stdout.write(`${name} ... `);
  const script = fileURLToPath(new URL('measure.mjs', import.meta.url));
  const settings = JSON.stringify({ ...work, pgUrl, redisPort });
  const { stdout } = await promisify(execFile)(process.execPath, [script, driver, settings], { timeout: 240_000 });
  const row = JSON.parse(stdout.trim().split('\n').at(-1));
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

if (!existsSync(new URL('node_modules', import.meta.url)))
  throw new Error('The other queues are not installed: run "npm install" in bench/peers.');
const systems = chosen();
const folder = mkdtempSync(join(tmpdir(), 'millrace-peers-'));
const redis = systems.some(([, { redisPort }]) => redisPort !== undefined) ? await startRedis(folder) : [];
const scratch = await openScratch();
try {
  const rows = [];
  for (const system of systems) rows.push(await measure(system, await scratch.fresh(`peer_${rows.length}`)));
  console.table(rows);
  printRatios(rows);
} finally {
  for (const server of redis) server.kill();
  await scratch.close();
  rmSync(folder, { recursive: true, force: true });
}
