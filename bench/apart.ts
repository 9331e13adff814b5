// node bench/apart.ts <driver> <settings>: the way people deploy a queue. One process submits, two others work. Prints one line of JSON; bench/run.ts
// and bench/peers/apart.mjs call it. The driver is a module with the `open` of bench/driver.ts.
//
//   pickup  one job at a time on an idle queue: from just before its submission to its handler
//   load    an open loop of jobs at a fixed rate, whose handlers wait for 5 ms: the same time
//   drain   a backlog of such jobs, submitted while no worker runs: jobs a second from the first start to the last
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { percentile } from './workload.ts';

/** When the job was submitted, and how long its handler waits. */
export type ApartPayload = { atMs: number; waitMs: number };
/** When the job was submitted and when its handler started, on the machine's clock. */
export type Started = [atMs: number, startedMs: number];
export type ApartReport = { kind: 'ready' } | { kind: 'started'; jobs: Started[] };

/** What a driver opens. */
export type QueueSystem = {
  submit(payload: ApartPayload): Promise<unknown>;
  submitBatch(payloads: ApartPayload[]): Promise<unknown>;
  work(onJob: (payload: ApartPayload) => Promise<void>, options: { concurrency: number }): Promise<unknown>;
  close(): Promise<unknown>;
};

export type ApartSize = { probes: number; perSecond: number; seconds: number; backlog: number };

export type ApartFigures = {
  pickupP50Ms: number;
  pickupP99Ms: number;
  loadP50Ms: number;
  loadP99Ms: number;
  drainPerSecond: number;
  /** Jobs of all three parts that had not started when patience ended. */
  missing: number;
};

type Connection = Record<string, unknown>;

const WORKERS = 2;
const SLOTS = 64;
const HANDLER_MS = 5;
const PROBE_EVERY_MS = 20;
const BATCH = 1_000;
/** Workers that have just started get this time to warm up. */
const SETTLE_MS = 1_500;
const PATIENCE_MS = { pickup: 5_000, load: 20_000, drain: 60_000, end: 3_000 };

const nowMs = (): number => performance.timeOrigin + performance.now();

/** Two worker processes of one system, and the starts that they reported. */
class Workers {
  readonly #driver: string;
  readonly #settings: string;
  #children: ChildProcess[] = [];
  #started: Started[] = [];

  constructor(driver: string, connection: Connection) {
    this.#driver = driver;
    this.#settings = JSON.stringify({ ...connection, slots: SLOTS });
  }

  async hire(): Promise<void> {
    await Promise.all(Array.from({ length: WORKERS }, () => this.#hireOne()));
  }

  /** Waits until this many jobs have started, or until the time limit, and returns them. */
  async take(count: number, patienceMs: number): Promise<Started[]> {
    const deadlineMs = nowMs() + patienceMs;
    while (this.#started.length < count && nowMs() < deadlineMs) await sleep(PROBE_EVERY_MS);
    const started = this.#started;
    this.#started = [];
    return started;
  }

  async dismiss(): Promise<void> {
    const children = this.#children;
    this.#children = [];
    await Promise.all(
      children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const gone = once(child, 'exit');
        child.disconnect();
        await Promise.race([gone, sleep(PATIENCE_MS.end, undefined, { ref: false })]);
        child.kill('SIGKILL');
        await gone;
      }),
    );
  }

  async #hireOne(): Promise<void> {
    const script = fileURLToPath(new URL('./apart-worker.ts', import.meta.url));
    const child = fork(script, [this.#driver, this.#settings], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#children.push(child);
    const ready = Promise.withResolvers<void>();
    child.on('message', (report: ApartReport) => {
      if (report.kind === 'ready') ready.resolve();
      else this.#started.push(...report.jobs);
    });
    child.once('exit', (code, signal) => ready.reject(new Error(`a worker process ended with ${signal ?? code}`)));
    await ready.promise;
  }
}

async function probe(system: QueueSystem, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent++) {
    await system.submit({ atMs: nowMs(), waitMs: 0 });
    await sleep(PROBE_EVERY_MS);
  }
}

/** Submits at a fixed rate without waiting for results. Returns the number of submitted jobs. */
async function submitSteadily(system: QueueSystem, { perSecond, seconds }: ApartSize): Promise<number> {
  const beganMs = nowMs();
  const inFlight = new Set<Promise<unknown>>();
  let sent = 0;
  for (let elapsedMs = 0; elapsedMs < seconds * 1_000; elapsedMs = nowMs() - beganMs) {
    for (; sent < (elapsedMs * perSecond) / 1_000; sent++) {
      const submitting: Promise<unknown> = system.submit({ atMs: nowMs(), waitMs: HANDLER_MS }).finally(() => inFlight.delete(submitting));
      inFlight.add(submitting);
    }
    await sleep(2);
  }
  await Promise.all(inFlight);
  return sent;
}

async function submitBacklog(system: QueueSystem, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += BATCH) {
    const size = Math.min(BATCH, count - sent);
    await system.submitBatch(Array.from({ length: size }, () => ({ atMs: nowMs(), waitMs: HANDLER_MS })));
  }
}

const waitsOf = (started: readonly Started[]): number[] => started.map(([atMs, startedMs]) => startedMs - atMs);

function ratePerSecond(started: readonly Started[]): number {
  const times = started.map(([, startedMs]) => startedMs).sort((one, other) => one - other);
  const tookMs = (times.at(-1) ?? Number.NaN) - (times[0] ?? Number.NaN);
  return Math.round((times.length / tookMs) * 1_000);
}

/** Measures one system on an empty database. The driver opens `connection`. */
export async function measureApart(driver: string, connection: Connection, size: ApartSize): Promise<ApartFigures> {
  const { open } = await import(driver);
  const system: QueueSystem = await open(connection);
  const workers = new Workers(driver, connection);
  try {
    await workers.hire();
    await sleep(SETTLE_MS);
    await probe(system, size.probes);
    const probed = await workers.take(size.probes, PATIENCE_MS.pickup);
    const sent = await submitSteadily(system, size);
    const loaded = await workers.take(sent, PATIENCE_MS.load);
    await workers.dismiss();
    await submitBacklog(system, size.backlog);
    await workers.hire();
    const drained = await workers.take(size.backlog, PATIENCE_MS.drain);
    const [pickups, loads] = [waitsOf(probed), waitsOf(loaded)];
    return {
      pickupP50Ms: percentile(pickups, 0.5),
      pickupP99Ms: percentile(pickups, 0.99),
      loadP50Ms: percentile(loads, 0.5),
      loadP99Ms: percentile(loads, 0.99),
      drainPerSecond: ratePerSecond(drained),
      missing: size.probes + sent + size.backlog - probed.length - loaded.length - drained.length,
    };
  } finally {
    await workers.dismiss();
    await Promise.race([system.close(), sleep(PATIENCE_MS.end, undefined, { ref: false })]);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [driver, settings] = process.argv.slice(2) as [string, string];
  const { size, ...connection } = JSON.parse(settings);
  console.log(JSON.stringify(await measureApart(driver, connection, size)));
  process.exit(0);
}
