// node chaos/worker-kill.ts [--kills 50] [--cuts 1000] [--quick]: repeatedly kills one of two workers with kill -9
// while it runs jobs. Measures how long each of its jobs takes to start again, at default settings. Then it makes the server end sessions
// of live workers under load, mostly sessions that hold locks. Fails if the 99th percentile is above five seconds, if a live worker loses
// a job, or if the ledger is not consistent.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { Millrace } from '../src/index.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { checkInvariants } from '../src/ledger/upkeep/invariants.ts';
import { createPostgres } from './postgres-server.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '50' },
    cuts: { type: 'string', default: '1000' },
    quick: { type: 'boolean', default: false },
  },
});
const kills = values.quick ? 4 : Number(values.kills);
const cuts = values.quick ? 100 : Number(values.cuts);

const SCRIPT = fileURLToPath(new URL('./held-worker.ts', import.meta.url));
const BAR_MS = 5_000;
const HELD_JOBS = 10;
const MAX_WAIT_MS = 60_000;
const MAX_GAP_MS = 60;
const LOAD_PAUSE_MS = 50;
const LOAD_JOBS = 20;

/** A worker process and the attempts it has started: the job's id and the attempt, and when. */
class Victim {
  readonly starts = new Map<string, number>();
  readonly #child: ChildProcess;
  readonly #ready: Promise<unknown>;

  constructor(url: string) {
    this.#child = spawn(process.execPath, [SCRIPT, url], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    this.#ready = once(lines, 'line');
    lines.on('line', (line) => {
      const [word, jobId, attempt] = line.split(' ');
      if (word === 'start') this.starts.set(`${jobId} ${attempt}`, performance.now());
    });
  }

  async start(): Promise<this> {
    await this.#ready;
    return this;
  }

  /** Of these jobs, the ones whose first attempt it has started. */
  holds(jobIds: readonly string[]): string[] {
    return jobIds.filter((id) => this.starts.has(`${id} 1`));
  }

  /** Ends the handlers that wait. */
  release(): void {
    this.#child.stdin?.write('go\n');
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }
}

async function until(what: string, isSo: () => boolean): Promise<void> {
  const endMs = performance.now() + MAX_WAIT_MS;
  while (!isSo()) {
    if (performance.now() > endMs) throw new Error(`waited for ${MAX_WAIT_MS} ms until ${what}`);
    await delay(5);
  }
}

/** How long each job of the killed worker took to start again. */
async function killOnce(millrace: Millrace, workers: Victim[], url: string): Promise<number[]> {
  const submissions = Array.from({ length: HELD_JOBS }, () => ({ type: 'held', payload: {} }));
  const { results } = await millrace.submitMany(submissions);
  const jobIds = results.map(({ jobId }) => jobId as string);
  await until('all jobs run', () => workers.flatMap((worker) => worker.holds(jobIds)).length === HELD_JOBS);
  const [victim, other] = workers.toSorted((a, b) => b.holds(jobIds).length - a.holds(jobIds).length) as [Victim, Victim];
  const orphans = victim.holds(jobIds);
  const killedMs = performance.now();
  await victim.kill();
  other.release();
  await until('its jobs run again', () => orphans.every((id) => other.starts.has(`${id} 2`)));
  workers.splice(workers.indexOf(victim), 1, await new Victim(url).start());
  return orphans.map((id) => (other.starts.get(`${id} 2`) as number) - killedMs);
}

const LIVE_SESSIONS = `SELECT a.pid FROM pg_stat_activity a WHERE a.datname = current_database()
  AND a.application_name IN ('millrace heartbeat', 'millrace workers', 'millrace producer', 'millrace completer', 'millrace listener')`;

/** Mostly the session that holds a worker's lock, at times another, rarely all at once. */
function pickSessions(): string {
  const chance = Math.random();
  if (chance < 0.6) return `${LIVE_SESSIONS} AND a.application_name = 'millrace heartbeat' ORDER BY random() LIMIT 1`;
  return chance < 0.9 ? `${LIVE_SESSIONS} ORDER BY random() LIMIT 1` : LIVE_SESSIONS;
}

async function cutSessions(url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  let ended = 0;
  for (let cut = 0; cut < cuts; cut++) {
    const { rowCount } = await client.query(`SELECT pg_terminate_backend(s.pid) FROM (${pickSessions()}) s`);
    ended += rowCount ?? 0;
    await delay(Math.random() * MAX_GAP_MS);
  }
  await client.end();
  return ended;
}

/** Returns how many jobs it submitted. */
async function load(millrace: Millrace, isOver: () => boolean): Promise<number> {
  let submitted = 0;
  while (!isOver()) {
    await millrace.submitMany(Array.from({ length: LOAD_JOBS }, () => ({ type: 'brief', payload: {} })));
    submitted += LOAD_JOBS;
    await delay(LOAD_PAUSE_MS);
  }
  return submitted;
}

async function taken(url: string): Promise<{ lost: number; declared: number; open: number }> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query(`SELECT
    (SELECT count(*)::int4 FROM millrace.events WHERE reason = 'worker_lost' AND to_state = 'retrying') AS lost,
    (SELECT count(*)::int4 FROM millrace.workers WHERE stopped_at IS NOT NULL) AS declared,
    (SELECT count(*)::int4 FROM millrace.jobs WHERE completed_at IS NULL) AS open`);
  await client.end();
  return rows[0];
}

const rank = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;

const postgres = await createPostgres();
const millrace = await Millrace.open({ database: postgres.url });
const workers: Victim[] = [];
try {
  for (let n = 0; n < 2; n++) workers.push(await new Victim(postgres.url).start());
  const times: number[] = [];
  for (let kill = 0; kill < kills; kill++) times.push(...(await killOnce(millrace, workers, postgres.url)));
  times.sort((a, b) => a - b);
  const [p50, p99, max] = [rank(times, 0.5), rank(times, 0.99), rank(times, 1)].map(Math.round) as [number, number, number];
  console.log(`${kills} kills, ${times.length} jobs: start again after ${p50} ms (p50), ${p99} ms (p99), ${max} ms (max)`);

  const before = await taken(postgres.url);
  let isOver = false;
  const loading = load(millrace, () => isOver);
  const ended = await cutSessions(postgres.url).finally(() => {
    isOver = true;
  });
  const submitted = await loading;
  let after = await taken(postgres.url);
  for (const endMs = performance.now() + MAX_WAIT_MS; after.open > 0 && performance.now() < endMs; await delay(100))
    after = await taken(postgres.url);
  const [lost, declared] = [after.lost - before.lost, after.declared - before.declared];
  console.log(
    `${cuts} cuts ended ${ended} sessions under ${submitted} jobs: ${lost} jobs were taken from live workers, ` +
      `${declared} live workers declared dead, ${after.open} jobs still open`,
  );
  const database = openDatabase({ url: postgres.url });
  const violations = await checkInvariants(database.maintenance).finally(() => database.close());
  for (const violation of violations) console.log(violation);
  const isGood = p99 <= BAR_MS && lost === 0 && declared === 0 && after.open === 0 && violations.length === 0;
  process.exitCode = isGood ? 0 : 1;
} finally {
  for (const worker of workers) await worker.kill();
  await millrace.close({ grace: 0 });
  await postgres.remove();
}
