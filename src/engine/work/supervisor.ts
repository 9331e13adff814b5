import { hostname } from 'node:os';
import type { Policy } from '../../core/policy.ts';
import type { StartedJob } from '../../ledger/attempts/take-jobs.ts';
import { registerWorker, stopWorker } from '../../ledger/attempts/workers.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import { announceType } from '../../ledger/queues/job-types.ts';
import { raiseVirtualTime } from '../../ledger/queues/queues.ts';
import type { Catalogue } from '../catalogue.ts';
import type { EventHub } from '../events.ts';
import { Loop } from '../loop.ts';
import type { Execution } from './execution.ts';
import { HandlerContext, type SpawnRequest } from './handler-context.ts';
import { Heartbeat } from './heartbeat.ts';
import type { Producers } from './producers.ts';
import type { HandlerRegistry } from './registry.ts';
import { Worker } from './worker.ts';

export type SupervisorOptions = {
  database: Database;
  policies: PolicyCache;
  registry: HandlerRegistry;
  /** The producers of all crews of this process. */
  producers: Producers;
  catalogue: Catalogue;
  events: EventHub;
  profile: Policy;
  name: string;
  slots: number;
  queues: readonly string[];
  startsApart: boolean;
  pollMs: number;
  heartbeatMs?: number;
  /** How long a worker that stops insists that its last outcomes are written. */
  lastWritesMs?: number;
  spawn(execution: Execution, request: SpawnRequest): Promise<string | null>;
  onReleased(): void;
  onDelayed(delayMs: number): void;
};

/**
 * Gives this process its place among the workers: announces what it handles, registers it, keeps its heart beating, and
 * gives it a new name should the ledger declare it dead.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #poll: Loop;
  #worker: Worker | null = null;
  #heartbeat: Heartbeat | null = null;
  #isReborn = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#poll = new Loop({
      name: 'poll',
      round: () => this.#round(),
      onError: (error, where) => options.events.emit('error', { error, where }),
    });
  }

  get workerId(): number {
    return this.#worker?.id ?? 0;
  }

  async start(): Promise<void> {
    await this.#announce();
    await this.#enlist();
    this.#poll.start();
  }

  wake(): void {
    this.#worker?.wake();
  }

  checkCancels(): void {
    this.#heartbeat?.wake();
  }

  /** The queues changed: look in all of them. */
  refresh(): void {
    this.#worker?.serve(this.#queues());
  }

  async drain(graceMs: number): Promise<void> {
    await this.#poll.stop();
    await this.#worker?.drain(graceMs);
    await this.#retire();
  }

  async #announce(): Promise<void> {
    const { registry, database, catalogue } = this.#options;
    for (const { type, layer, concurrency } of registry.all()) {
      const { hasCustomBackoff, ...defaults } = layer;
      await announceType(database.api, { name: type, defaults, concurrency, customBackoff: hasCustomBackoff });
    }
    await catalogue.refresh();
  }

  async #enlist(): Promise<void> {
    const { database, registry, slots, name, queues } = this.#options;
    const types = registry.types();
    const id = await registerWorker(database.workers, {
      name,
      host: hostname(),
      pid: process.pid,
      types,
      queues: [...queues],
      slots,
    });
    const worker = this.#makeWorker(id);
    const heartbeat = new Heartbeat({
      ...{ database, worker, events: this.#options.events, leaseMs: this.#shortestLease() },
      maxIntervalMs: this.#options.heartbeatMs,
      onDead: () => {
        this.#isReborn = true;
        this.#poll.wake();
      },
    });
    await heartbeat.start();
    this.#heartbeat = heartbeat;
    this.#worker = worker;
    worker.start();
  }

  #makeWorker(workerId: number): Worker {
    const { database, registry, events, spawn, catalogue } = this.#options;
    const ensureStarted = (execution: Execution) => worker.ensureStarted(execution);
    const services = { database, events, workerId: () => workerId, spawn, ensureStarted };
    const worker: Worker = new Worker({
      ...this.#options,
      workerId,
      queues: this.#queues(),
      fairQueues: () => catalogue.fairQueues,
      hasCaps: () => catalogue.hasCaps(registry.types()),
      contextOf: (execution) => new HandlerContext(execution, services),
      onStarted: (started) => this.#onStarted(started),
    });
    return worker;
  }

  #queues(): readonly string[] {
    const { queues, catalogue } = this.#options;
    return queues.includes('*') ? catalogue.queues : queues;
  }

  #shortestLease(): number {
    const { registry, profile } = this.#options;
    return Math.min(profile.leaseMs, ...registry.all().map(({ layer }) => layer.leaseMs ?? profile.leaseMs));
  }

  #onStarted(started: readonly StartedJob[]): void {
    const { catalogue, database, policies, events } = this.#options;
    const stamps = new Map<string, number>();
    for (const job of started) {
      const policy = policies.cached(job.policyId);
      if (policy !== undefined) this.#heartbeat?.shorten(policy.leaseMs);
      if (catalogue.fairQueues.has(job.queue))
        stamps.set(job.queue, Math.max(stamps.get(job.queue) ?? 0, job.orderKey));
    }
    for (const [queue, stamp] of stamps) {
      raiseVirtualTime(database.workers, queue, stamp).catch((error) =>
        events.emit('error', { error, where: 'fair queue' }),
      );
    }
  }

  /** Polling is the truth; every wake-up is only a hint. */
  async #round(): Promise<number> {
    if (this.#isReborn) {
      await this.#worker?.drain(0);
      await this.#retire();
      this.#isReborn = false;
    }
    // Tried in each round until the ledger takes it.
    if (this.#worker === null) await this.#enlist();
    this.#worker?.wake();
    return this.#options.pollMs;
  }

  async #retire(): Promise<void> {
    const worker = this.#worker;
    await this.#heartbeat?.stop();
    this.#heartbeat = null;
    this.#worker = null;
    if (worker === null) return;
    await stopWorker(this.#options.database.workers, worker.id).catch((error) =>
      this.#options.events.emit('error', { error, where: 'retire' }),
    );
  }
}
