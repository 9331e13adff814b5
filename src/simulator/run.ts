import { type ExpectedOutcome, KINDS, type WorkKind } from '../core/execution/kinds.ts';
import { ExecutionApi } from './api.ts';
import { judgeReport } from './check.ts';
import { DeliveryJudge } from './deliveries.ts';
import { DRIVERS } from './drivers.ts';
import type { Host } from './host.ts';
import { closedLoop, openLoop, type Pace } from './pace.ts';
import { type PlannedJob, type PlanOptions, planRun } from './plan.ts';
import { Stats } from './stats.ts';
import { Verifier } from './verifier.ts';
import { JobWatch } from './watch-jobs.ts';
import type { Receiver } from './webhook-receiver.ts';
import type { Observed, Turn, World } from './world.ts';

export type RunOptions = {
  readonly plan: PlanOptions;
  /** How long to submit jobs; null: until the plan ends. */
  readonly durationMs: number | null;
  readonly pace: { readonly ratePerSecond: number } | { readonly concurrency: number };
  readonly timeScale: number;
  readonly expectations: ReadonlyMap<WorkKind, ExpectedOutcome>;
  readonly receiver: Receiver;
  readonly bootstrapToken?: string;
  readonly signal: AbortSignal;
  /** Called at the start with the live statistics. */
  onStart?(stats: Stats): void;
};

export type Run = {
  readonly stats: Stats;
  readonly verifier: Verifier;
  readonly elapsedMs: number;
  readonly notes: readonly string[];
  readonly deliveries: number;
  readonly wasInterrupted: boolean;
};

/** Runs every planned job on the server, then compares the report of the server with the list of work kinds. */
export async function runSimulation(host: Host, options: RunOptions): Promise<Run> {
  const stats = new Stats();
  options.onStart?.(stats);
  const { signal, bootstrapToken, timeScale, receiver } = options;
  const api = new ExecutionApi({ url: host.url, signal, bootstrapToken, onExchange: (one) => stats.exchange(one) });
  try {
    const clients = await Promise.all(Array.from({ length: options.plan.clients }, () => api.register()));
    const watch = new JobWatch({ api, signal });
    const world: World = { api, clients, receiver, watch, stats, timeScale, signal };
    return await new Simulation(world, host, options).run();
  } finally {
    api.close();
  }
}

const FEW_JOBS = 1_000;

class Simulation {
  readonly #world: World;
  readonly #host: Host;
  readonly #options: RunOptions;
  readonly #verifier: Verifier;
  readonly #notes = new Set<string>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #callbacks = new Map<string, string>();
  /** Jobs that become due while the server restarts. They run last, so that the restart does not disturb the others. */
  readonly #parked: PlannedJob[] = [];

  constructor(world: World, host: Host, options: RunOptions) {
    this.#world = world;
    this.#host = host;
    this.#options = options;
    this.#verifier = new Verifier(options);
  }

  async run(): Promise<Run> {
    const { stats, signal, receiver } = this.#world;
    const far = await this.#drivePlan();
    await Promise.all([...this.#underWay].filter((one) => !far.has(one)));
    if (this.#parked.length > 0 && !signal.aborted) await this.#driveParked();
    await Promise.all(this.#underWay);
    const elapsedMs = performance.now() - stats.startedMs;
    if (!signal.aborted) await this.#hearAll();
    this.#verifier.close();
    const deliveries = receiver.received().length;
    return {
      stats,
      verifier: this.#verifier,
      elapsedMs,
      notes: [...this.#notes],
      deliveries,
      wasInterrupted: signal.aborted,
    };
  }

  /** Returns the jobs that are due in the far future. */
  async #drivePlan(): Promise<Set<Promise<void>>> {
    const far = new Set<Promise<void>>();
    const { plan, durationMs } = this.#options;
    const endMs = performance.now() + (durationMs ?? Number.POSITIVE_INFINITY);
    const jobs = planRun(plan);
    for await (const permit of paceOf(this.#options)) {
      const next = jobs.next();
      if (next.done === true || performance.now() >= endMs) break;
      const drive = KINDS[next.value.kind].drive;
      if (drive === 'deferred_restart') {
        this.#parked.push(next.value);
        permit.done();
        continue;
      }
      const done = callOnce(permit.done);
      // A job that waits for its due time does not count as in flight.
      const onAccepted = () => next.value.executionInMs !== null && done();
      const driving = this.#drive(next.value, { intendedMs: permit.intendedMs, onAccepted });
      void driving.finally(done);
      if (drive === 'deferred_far') far.add(driving);
    }
    return far;
  }

  /** Submits the parked jobs, and restarts the server so that they become due while it is down. */
  async #driveParked(): Promise<void> {
    let dueMs = Date.now();
    const accepted = this.#parked.map((plan) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const onAccepted = () => {
        dueMs = Math.max(dueMs, Date.now() + (plan.executionInMs ?? 0));
        resolve();
      };
      return Promise.race([promise, this.#drive(plan, { intendedMs: performance.now(), onAccepted })]);
    });
    await Promise.all(accepted);
    if (this.#world.signal.aborted) return;
    if (this.#host.restart === null) this.#notes.add('restart: not performed (see --embedded and --restart)');
    this.#verifier.away = await this.#host.restart?.(dueMs);
  }

  #drive(plan: PlannedJob, turn: Turn): Promise<void> {
    const driving = DRIVERS[KINDS[plan.kind].drive](this.#world, plan, turn)
      .catch((error: unknown) => failed(plan, error))
      .then((observed) => {
        this.#underWay.delete(driving);
        if (this.#world.signal.aborted) return;
        for (const note of observed.notes) this.#notes.add(note);
        for (const { jobId, callback } of observed.jobs) if (callback) this.#callbacks.set(jobId, callback);
        this.#verifier.add(observed);
      });
    this.#underWay.add(driving);
    return driving;
  }

  /** Checks every job in the report over all jobs. A small run also checks the report of each job. */
  async #hearAll(): Promise<void> {
    const { api, clients, stats } = this.#world;
    const looksCloser = stats.submitted <= FEW_JOBS;
    const deliveries = new DeliveryJudge(this.#world);
    for (const { apiKey } of clients) {
      for await (const row of api.reports(apiKey)) {
        stats.reported(row);
        const known = looksCloser ? judgeReport(row, await api.report(apiKey, row.job_id)) : [];
        const url = this.#callbacks.get(row.job_id);
        if (url !== undefined) known.push(...(await deliveries.judge({ apiKey, url, row })));
        this.#verifier.check(row, known);
      }
    }
  }
}

function paceOf({ pace, signal }: RunOptions): Pace {
  return 'ratePerSecond' in pace ? openLoop(pace.ratePerSecond, signal) : closedLoop(pace.concurrency, signal);
}

const failed = (plan: PlannedJob, error: unknown): Observed => ({
  plan,
  jobs: [],
  refusal: null,
  missed: 0,
  notes: [],
  problems: [error instanceof Error ? error.message : String(error)],
});

function callOnce(call: () => void): () => void {
  let isCalled = false;
  return () => {
    if (!isCalled) call();
    isCalled = true;
  };
}
