// node chaos/outcomes-blocked.ts [--jobs 100000] [--seconds 10] [--slots 10]: keeps a worker from writing its outcomes while many jobs wait, first with
// a user's transaction that holds one job, then with a lock on the whole table. Samples how many jobs are running and how much memory
// the worker uses, lets it continue, and fails unless both stayed small and every job completed exactly once.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { Millrace } from '../src/index.ts';
import { residentMb } from './memory-watch.ts';
import type { OutcomeReport, OutcomeRequest, OutcomeWorkerSettings } from './outcome-worker.ts';
import { createPostgres } from './postgres-server.ts';

type Figure = { phase: string; figure: string; measured: string; ok: boolean };
type Peaks = { running: number; held: number; growthMb: number };
type Counts = Extract<OutcomeReport, { kind: 'counts' }>;

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '10' },
    slots: { type: 'string', default: '10' },
  },
});
const jobs = Number(values.jobs);
const slots = Number(values.slots);
const blockedMs = Number(values.seconds) * 1_000;

const BATCH = 1_000;
const SAMPLE_EVERY_MS = 100;
const MAX_AHEAD = 1_000;
const MAX_GROWTH_MB = 100;
const DRAIN_MS = 180_000;
/** Jobs before the first phase, so that the memory of a worker that is warm is what growth is measured from. */
const WARM_UP = Math.min(20_000, jobs);
const PHASES = 2;
/** Jobs of this queue wait until everything is in place. */
const QUEUE = 'bulk';
const COUNT_RUNNING = `SELECT count(*)::int4 AS count FROM millrace.jobs WHERE state = 'running'`;
const COUNT_OPEN = `SELECT count(*)::int4 AS count FROM millrace.jobs WHERE state <> 'completed'`;
const COUNT_REPEATED = 'SELECT count(*)::int4 AS count FROM millrace.jobs WHERE attempts_started <> 1';
const COUNT_COMPLETIONS = `SELECT count(*)::int4 AS count, count(DISTINCT job_seq)::int4 AS jobs FROM millrace.events
  WHERE to_state = 'completed' AND job_type = 'noop'`;

const startedMs = performance.now();
const say = (line: string) => process.stderr.write(`${((performance.now() - startedMs) / 1_000).toFixed(0)} s: ${line}\n`);
const figures: Figure[] = [];

/** The worker process, and what it says of itself. */
class OutcomeWorker {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(settings: OutcomeWorkerSettings): Promise<OutcomeWorker> {
    const script = fileURLToPath(new URL('./outcome-worker.ts', import.meta.url));
    const worker = new OutcomeWorker(fork(script, [JSON.stringify(settings)]));
    await worker.until('ready');
    return worker;
  }

  get residentMb(): number {
    return residentMb(this.#child.pid as number);
  }

  ask(request: OutcomeRequest): void {
    this.#child.send(request);
  }

  async until<K extends OutcomeReport['kind']>(kind: K): Promise<Extract<OutcomeReport, { kind: K }>> {
    for (;;) {
      const [report] = (await once(this.#child, 'message')) as [OutcomeReport];
      if (report.kind === kind) return report as Extract<OutcomeReport, { kind: K }>;
    }
  }

  counts(): Promise<Counts> {
    const counts = this.until('counts');
    this.ask('count');
    return counts;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.ask('end');
    await gone;
  }
}

type Parts = { url: string; watcher: pg.Client; millrace: Millrace; worker: OutcomeWorker };

let submitted = 0;

async function submit(millrace: Millrace, count: number): Promise<void> {
  for (const end = submitted + count; submitted < end; ) {
    const size = Math.min(BATCH, end - submitted);
    const batch = Array.from({ length: size }, () => ({ type: 'noop', payload: { no: submitted++ }, queue: QUEUE }));
    await millrace.submitMany(batch);
  }
}

async function countRows(watcher: pg.Client, sql: string): Promise<number> {
  const { rows } = await watcher.query<{ count: number }>(sql);
  return rows[0]?.count ?? 0;
}

/** Waits until every job is completed, or for three minutes. */
async function drained(watcher: pg.Client): Promise<number> {
  const deadlineMs = performance.now() + DRAIN_MS;
  for (;;) {
    const open = await countRows(watcher, COUNT_OPEN);
    if (open === 0 || performance.now() > deadlineMs) return open;
    await delay(SAMPLE_EVERY_MS);
  }
}

async function sample({ watcher, worker }: Parts, beganMb: number): Promise<Peaks> {
  const peaks: Peaks = { running: 0, held: 0, growthMb: 0 };
  const deadlineMs = performance.now() + blockedMs;
  while (performance.now() < deadlineMs) {
    const [running, counts] = await Promise.all([countRows(watcher, COUNT_RUNNING), worker.counts()]);
    peaks.running = Math.max(peaks.running, running);
    peaks.held = Math.max(peaks.held, counts.returned - counts.landed);
    peaks.growthMb = Math.max(peaks.growthMb, worker.residentMb - beganMb);
    await delay(SAMPLE_EVERY_MS);
  }
  return peaks;
}

/** A handler returns while its transaction still holds its job, so that the outcome of that job cannot be written. */
async function blockByOwner({ millrace, worker }: Parts): Promise<() => Promise<void>> {
  const held = worker.until('held');
  await millrace.submit({ type: 'owner', payload: {} });
  await held;
  await millrace.queues.resume(QUEUE);
  return async () => worker.ask('commit');
}

async function blockByTable({ millrace, worker, url }: Parts): Promise<() => Promise<void>> {
  const { landed } = await worker.counts();
  await millrace.queues.resume(QUEUE);
  while ((await worker.counts()).landed < landed + MAX_AHEAD) await delay(1);
  const client = new pg.Client(url);
  await client.connect();
  await client.query('BEGIN; LOCK TABLE millrace.jobs IN EXCLUSIVE MODE');
  return async () => {
    await client.query('COMMIT');
    await client.end();
  };
}

async function runPhase(phase: string, parts: Parts, block: (parts: Parts) => Promise<() => Promise<void>>): Promise<void> {
  const { watcher, millrace, worker } = parts;
  const note = (figure: string, measured: number, ok: boolean) => figures.push({ phase, figure, measured: measured.toFixed(0), ok });
  say(`${phase}: ${jobs} jobs wait ...`);
  await millrace.queues.pause(QUEUE);
  await submit(millrace, jobs);
  const beganMb = worker.residentMb;
  const release = await block(parts);
  say(`${phase}: no outcome can be written for ${blockedMs / 1_000} s ...`);
  const peaks = await sample(parts, beganMb);
  say(`${phase}: until every job is completed ...`);
  await release();
  const releasedMs = performance.now();
  const open = await drained(watcher);
  say(`${phase}: completed ${((performance.now() - releasedMs) / 1_000).toFixed(1)} s after the release`);
  const { repeated } = await worker.counts();
  const maxRunning = slots + MAX_AHEAD;
  note(`running <= ${maxRunning}`, peaks.running, peaks.running <= maxRunning);
  note(`memory grew by <= ${MAX_GROWTH_MB} MB`, peaks.growthMb, peaks.growthMb <= MAX_GROWTH_MB);
  note(`outcomes in memory <= ${maxRunning}`, peaks.held, peaks.held <= maxRunning);
  note('not completed = 0', open, open === 0);
  note('run more than once = 0', repeated, repeated === 0);
}

async function run(parts: Parts): Promise<void> {
  const { watcher, millrace, worker } = parts;
  say('warming up ...');
  await submit(millrace, WARM_UP);
  await drained(watcher);
  await runPhase('a held job', parts, blockByOwner);
  await runPhase('a locked table', parts, blockByTable);
  const { returned } = await worker.counts();
  const again = await countRows(watcher, COUNT_REPEATED);
  const { rows } = await watcher.query<{ count: number; jobs: number }>(COUNT_COMPLETIONS);
  const { count, jobs: completed } = rows[0] as { count: number; jobs: number };
  const note = (figure: string, measured: number, ok: boolean) => figures.push({ phase: 'in all', figure, measured: String(measured), ok });
  note(`handlers run = ${submitted}`, returned, returned === submitted);
  note(`jobs completed = ${submitted}`, completed, completed === submitted);
  note(`completions recorded = ${submitted}`, count, count === submitted);
  note('jobs with another number of attempts than 1 = 0', again, again === 0);
}

const postgres = await createPostgres();
const onSignal = () => void postgres.remove().finally(() => process.exit(1));
process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
say(`${jobs} jobs, ${slots} slots`);
try {
  const { url } = postgres;
  const millrace = await Millrace.open({ database: url });
  const worker = await OutcomeWorker.start({ url, slots, jobs: WARM_UP + PHASES * jobs });
  const watcher = new pg.Client(url);
  await watcher.connect();
  await run({ url, watcher, millrace, worker });
  await worker.end();
  await watcher.end();
  await millrace.close();
} finally {
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  await postgres.remove();
}
console.table(figures.map(({ ok, ...figure }) => ({ ...figure, '': ok ? 'ok' : 'MISSED' })));
process.exitCode = figures.every(({ ok }) => ok) ? 0 : 1;
