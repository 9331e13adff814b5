// The systems that are compared, and the servers that they need.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openScratch } from '../scratch-database.ts';

const REDIS = [
  { port: 55_441, fsync: 'everysec' },
  { port: 55_442, fsync: 'always' },
];
const [EVERY_SECOND, ALWAYS] = REDIS.map(({ port }) => port);
const SYSTEMS = {
  millrace: { driver: 'millrace' },
  'graphile-worker': { driver: 'graphile-worker' },
  'pg-boss': { driver: 'pg-boss' },
  'bullmq on PostgreSQL': { driver: 'bullmq' },
  'bullmq on Redis, fsync every second': { driver: 'bullmq', redisPort: EVERY_SECOND },
  'bullmq on Redis, fsync always': { driver: 'bullmq', redisPort: ALWAYS },
};
const TIMEOUT_MS = 240_000;

/** The systems whose names begin as given, or all, as `{ name, driver, redisPort }`. */
export function chooseSystems(beginnings) {
  const names = Object.keys(SYSTEMS);
  for (const beginning of beginnings)
    if (!names.some((name) => name.startsWith(beginning)))
      throw new Error(`There is no system ${beginning}: name the beginning of one of ${names.join('; ')}.`);
  const wanted = names.filter((name) => beginnings.length === 0 || beginnings.some((each) => name.startsWith(each)));
  const systems = wanted.map((name) => ({ name, ...SYSTEMS[name] }));
  if (systems.some(({ driver }) => driver !== 'millrace') && !existsSync(new URL('node_modules', import.meta.url)))
    throw new Error('The other queues are not installed: run "npm install" in bench/peers.');
  if (hasRedis()) return systems;
  const possible = systems.filter(({ redisPort }) => redisPort === undefined);
  if (possible.length < systems.length) console.log('redis-server is not installed: the rows on Redis are left out.');
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

/** Starts the servers that the systems need, and stops them when `work` is done. */
export async function withServers(systems, work) {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-peers-'));
  const redis = systems.some(({ redisPort }) => redisPort !== undefined) ? await startRedis(folder) : [];
  const scratch = await openScratch();
  try {
    await work(scratch);
  } finally {
    for (const server of redis) server.kill();
    await scratch.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startRedis(folder) {
  const servers = REDIS.map(({ port, fsync }) => {
    const settings = { port, bind: '127.0.0.1', dir: folder, save: '', appendonly: 'yes' };
    const appending = { appendfsync: fsync, appenddirname: fsync };
    const args = Object.entries({ ...settings, ...appending }).flatMap(([name, value]) => [`--${name}`, String(value)]);
    return spawn('redis-server', args, { stdio: 'ignore' });
  });
  await sleep(800);
  return servers;
}

/** Runs the script in a process of its own and returns the JSON of its last line. */
export async function measureInProcess(script, args) {
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...args], { timeout: TIMEOUT_MS });
  return JSON.parse(stdout.trim().split('\n').at(-1));
}
