// node chaos/limits.ts [--seconds 60] [--rate-seconds 20] [--quick]: four worker processes run jobs of one key, of which three may run at
// the same time, and every five seconds one process is killed with kill -9. Then the same processes run jobs of which ten may start within
// a second. Reads from the history how many jobs ran at the same time and how many started within any second. Fails if one was too many,
// if the slots were not used again after the kills, or if the ledger is not consistent.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Millrace, type Submission } from '../src/index.ts';
import { type Database, openDatabase } from '../src/ledger/driver/database.ts';
import { checkInvariants } from '../src/ledger/upkeep/invariants.ts';
import { mostAtOnce, mostStarts, type RunInterval, runIntervals } from './limit-history.ts';
import { createPostgres } from './postgres-server.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    'rate-seconds': { type: 'string', default: '20' },
    quick: { type: 'boolean', default: false },
  },
});
const seconds = values.quick ? 12 : Number(values.seconds);
const rateSeconds = values.quick ? 5 : Number(values['rate-seconds']);

const SCRIPT = fileURLToPath(new URL('./limited-worker.ts', import.meta.url));
const WORKERS = 4;
const KILL_EVERY_MS = 5_000;
const CONCURRENCY = 3;
const RATE = 10;
const JOB_MS = 50;
/** Jobs that run one after the other in each of the slots, measured without kills. */
const LAST_JOBS = 150;

const workers: ChildProcess[] = [];

async function startWorker(url: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [SCRIPT, url, String(JOB_MS)], { stdio: ['pipe', 'pipe', 'inherit'] });
  workers.push(child);
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  return child;
}

async function killOne(url: string): Promise<void> {
  const victim = workers.splice(Math.floor(Math.random() * workers.length), 1)[0] as ChildProcess;
  victim.kill('SIGKILL');
  await once(victim, 'exit');
  await startWorker(url);
}

const submitted = (count: number, submission: Submission): Submission[] => Array.from({ length: count }, () => submission);

async function untilEmpty(millrace: Millrace): Promise<void> {
  while (
    (await millrace.search({ types: ['limited'], states: ['scheduled', 'running', 'retrying', 'delayed'] }, { limit: 1 })).jobs.length > 0
  )
    await delay(100);
}

async function underKills(millrace: Millrace, url: string): Promise<number> {
  const limit = { key: 'at the same time', concurrency: CONCURRENCY };
  const submission = { type: 'limited', payload: {}, maxAttempts: 100, limit };
  const endMs = performance.now() + seconds * 1_000;
  const queued = Math.ceil((seconds * 1_000 * CONCURRENCY) / JOB_MS);
  for (let left = queued; left > 0; left -= 1_000) await millrace.submitMany(submitted(Math.min(left, 1_000), submission));
  let kills = 0;
  while (performance.now() < endMs) {
    await delay(KILL_EVERY_MS);
    await killOne(url);
    kills++;
  }
  await untilEmpty(millrace);
  return kills;
}

async function atRate(millrace: Millrace): Promise<void> {
  const submission = { type: 'limited', payload: {}, maxAttempts: 100, limit: { key: 'within a second', rate: RATE, per: '1s' } };
  await millrace.submitMany(submitted(RATE * rateSeconds, submission));
  await untilEmpty(millrace);
}

/** How many jobs with the key ended each second, after the first second. */
async function speedOf(millrace: Millrace, db: Database): Promise<number> {
  const submission = { type: 'limited', payload: {}, limit: { key: 'after the kills', concurrency: CONCURRENCY } };
  await millrace.submitMany(submitted(LAST_JOBS, submission));
  await untilEmpty(millrace);
  const runs = await runIntervals(db.api, 'after the kills');
  const times = runs.map(({ endMs }) => endMs).toSorted((a, b) => a - b);
  return ((times.length - 1) * 1_000) / ((times.at(-1) as number) - (times[0] as number));
}

const failures: string[] = [];

function judge(what: string, found: number, allowed: number, runs: readonly RunInterval[]): void {
  process.stdout.write(`${what}: ${found} of at most ${allowed}, in ${runs.length} attempts\n`);
  if (found > allowed) failures.push(`${what} was ${found}`);
}

const server = await createPostgres();
try {
  const millrace = await Millrace.open({ database: server.url });
  const db = openDatabase({ url: server.url });
  for (let n = 0; n < WORKERS; n++) await startWorker(server.url);
  const kills = await underKills(millrace, server.url);
  process.stdout.write(`processes killed: ${kills}\n`);
  const underLimit = await runIntervals(db.api, 'at the same time');
  judge('the most jobs at the same time', mostAtOnce(underLimit), CONCURRENCY, underLimit);
  const speed = await speedOf(millrace, db);
  const full = (CONCURRENCY * 1_000) / JOB_MS;
  process.stdout.write(`jobs each second after the kills: ${speed.toFixed(1)} of at most ${full}\n`);
  if (speed < full / 2) failures.push('the slots were not used again after the kills');
  await atRate(millrace);
  const atRateRuns = await runIntervals(db.api, 'within a second');
  judge('the most starts within a second', mostStarts(atRateRuns, 1_000), RATE, atRateRuns);
  const startTimes = atRateRuns.map(({ startMs }) => startMs).toSorted((a, b) => a - b);
  const spanMs = (startTimes.at(-1) as number) - (startTimes[0] as number);
  process.stdout.write(`starts each second: ${(((startTimes.length - RATE) * 1_000) / spanMs).toFixed(2)} of at most ${RATE}\n`);
  const violations = await checkInvariants(db.maintenance);
  if (violations.length > 0) failures.push(`${violations.length} invariants are broken, first: ${JSON.stringify(violations[0])}`);
  await db.close();
  await millrace.close();
} finally {
  for (const worker of workers) worker.kill('SIGKILL');
  await server.remove();
}
for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;
