import { type ExpectedOutcome, KINDS, type WorkKind } from '../core/execution/kinds.ts';
import { ExecutionApi } from './api.ts';
import { judgeReport } from './check.ts';
import { DeliveryJudge } from './deliveries.ts';
import { DRIVERS } from './drivers.ts';
import type { Host } from './host.ts';
import { Jury } from './jury.ts';
import { closedLoop, openLoop, type Pace } from './pace.ts';
import { type PlannedJob, type PlanOptions, planRun } from './plan.ts';
import { Stats } from './stats.ts';
import { JobWatch } from './watch-jobs.ts';
import type { Receiver } from './webhook-receiver.ts';
import type { Observed, Turn, World } from './world.ts';

export type RunOptions = {
  readonly plan: PlanOptions;
  /** No more is submitted after so long; null: until the plan ends. */
  readonly durationMs: number | null;
  readonly pace: { readonly ratePerSecond: number } | { readonly concurrency: number };
  readonly timeScale: number;
  readonly expectations: ReadonlyMap<WorkKind, ExpectedOutcome>;
  /** Where callbacks go. */
  readonly receiver: Receiver;
  readonly bootstrapToken?: string;
  readonly signal: AbortSignal;
  /** Given what can be watched, as soon as there is something. */
  onStart?(stats: Stats): void;
};

export type Run = {
  readonly stats: Stats;
  readonly jury: Jury;
  readonly elapsedMs: number;
  readonly notes: readonly string[];
  readonly deliveries: number;
  readonly wasInterrupted: boolean;
};

/** Drives every planned job through the server, then holds the server's report of it against the catalogue. */
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
  readonly #jury: Jury;
  readonly #notes = new Set<string>();
  readonly #underWay = new Set<Promise<void>>();
  /** Where jobs tell of themselves, by their ids. */
  readonly #callbacks = new Map<string, string>();
  /** Jobs whose time is to pass while the server is away: they come last, so that the others are not disturbed. */
  readonly #parked: PlannedJob[] = [];

  constructor(world: World, host: Host, options: RunOptions) {
    this.#world = world;
    this.#host = host;
    this.#options = options;
    this.#jury = new Jury(options);
  }

  async run(): Promise<Run> {
    const { stats, signal, receiver } = this.#world;
    const far = await this.#drivePlan();
    await Promise.all([...this.#underWay].filter((one) => !far.has(one)));
    if (this.#parked.length > 0 && !signal.aborted) await this.#driveParked();
    await Promise.all(this.#underWay);
    const elapsedMs = performance.now() - stats.startedMs;
    if (!signal.aborted) await this.#hearAll();
    this.#jury.close();
    const deliveries = receiver.received().length;
    return { stats, jury: this.#jury, elapsedMs, notes: [...this.#notes], deliveries, wasInterrupted: signal.aborted };
  }

  /** Answers those that wait for a time far away. */
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
      // A job that waits for its time is no load.
      const onAccepted = () => next.value.executionInMs !== null && done();
      const driving = this.#drive(next.value, { intendedMs: permit.intendedMs, onAccepted });
      void driving.finally(done);
      if (drive === 'deferred_far') far.add(driving);
    }
    return far;
  }

  /** Submits them, has their time pass while the server is away, and waits for them when it is back. */
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
    this.#jury.away = await this.#host.restart?.(dueMs);
  }

  /** Enters what was seen. */
  #drive(plan: PlannedJob, turn: Turn): Promise<void> {
    const driving = DRIVERS[KINDS[plan.kind].drive](this.#world, plan, turn)
      .catch((error: unknown) => failed(plan, error))
      .then((observed) => {
        this.#underWay.delete(driving);
        if (this.#world.signal.aborted) return;
        for (const note of observed.notes) this.#notes.add(note);
        for (const { jobId, callback } of observed.jobs) if (callback) this.#callbacks.set(jobId, callback);
        this.#jury.enter(observed);
      });
    this.#underWay.add(driving);
    return driving;
  }

  /** Every job by the report over all of them; where there are few, by its own report too. */
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
        this.#jury.hear(row, known);
      }
    }
  }
}

function paceOf({ pace, signal }: RunOptions): Pace {
  return 'ratePerSecond' in pace ? openLoop(pace.ratePerSecond, signal) : closedLoop(pace.concurrency, signal);
}

const failed = (plan: PlannedJob, error: unknown): Observed => ({
  ...{ plan, jobs: [], refusal: null, missed: 0, notes: [] },
  problems: [error instanceof Error ? error.message : String(error)],
});

function callOnce(call: () => void): () => void {
  let isCalled = false;
  return () => {
    if (!isCalled) call();
    isCalled = true;
  };
}
