import { hostname } from 'node:os';
import { type Policy, resolvePolicy } from '../../core/policy.ts';
import { isReserved } from '../../core/submission-members.ts';
import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import { registerWorker, stopWorker } from '../../ledger/attempts/workers.ts';
import { storePolicies } from '../../ledger/jobs/intern-policies.ts';
import { announceType } from '../../ledger/queues/job-types.ts';
import type { Catalogue } from '../catalogue.ts';
import { Loop } from '../loop.ts';
import { type ContextServices, HandlerContext, type SpawnRequest } from './handler-context.ts';
import { Heartbeat } from './heartbeat.ts';
import type { Wake } from './producer-options.ts';
import type { RunningAttempt } from './running-attempt.ts';
import { Worker } from './worker.ts';
import type { WorkerOptions } from './worker-options.ts';

export type SupervisorOptions = Omit<
  WorkerOptions,
  'workerId' | 'reservedSlots' | 'fairQueues' | 'governedQueues' | 'reservedShares' | 'hasCaps' | 'contextOf' | 'onStarted'
> & {
  /** How many slots only orgs may take of which the worker runs no job. No slot is reserved while there is one org. */
  reservedSlots: number;
  catalogue: Catalogue;
  profile: Policy;
  maxPayloadBytes: number;
  name: string;
  pollMs: number;
  heartbeatMs?: number;
  exitWhenBlocked: boolean;
  news: ContextServices['news'];
  logs: ContextServices['logs'];
  categories: ContextServices['categories'];
  artifacts: ContextServices['artifacts'];
  spawn(attempt: RunningAttempt, request: SpawnRequest): Promise<string | null>;
};

/**
 * Runs the worker of one crew: registers its types and the worker in the ledger, sends its heartbeat, and replaces the
 * worker if the ledger declares it dead.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #poll: Loop;
  #worker: Worker | null = null;
  #heartbeat: Heartbeat | null = null;
  #isDeclaredDead = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#poll = new Loop({
      name: 'poll',
      round: () => this.#round(),
      events: options.events,
    });
  }

  /** Whether a handler is running. */
  get isBusy(): boolean {
    return (this.#worker?.running.size ?? 0) > 0;
  }

  get workerId(): number {
    return this.#worker?.id ?? 0;
  }

  async start(): Promise<void> {
    await this.#registerTypes();
    await this.#startWorker();
    this.#poll.start();
  }

  wake(how?: Wake): void {
    this.#worker?.wake(how);
  }

  checkCancels(): void {
    this.#heartbeat?.wake();
  }

  /** The queues have changed. */
  refresh(): void {
    this.#worker?.serve(this.#queues());
  }

  async drain(graceMs: number): Promise<void> {
    await this.#poll.stop();
    await this.#worker?.drain(graceMs);
    await this.#stopWorker();
  }

  async #registerTypes(): Promise<void> {
    const { registry, database, catalogue, profile, maxPayloadBytes } = this.#options;
    for (const { type, layer, concurrency } of registry.all()) {
      const { hasCustomBackoff, ...defaults } = layer;
      await announceType(database.api, { name: type, defaults, concurrency, customBackoff: hasCustomBackoff, profile, maxPayloadBytes });
    }
    await this.#storePolicies();
    await catalogue.refresh();
  }

  /** The SQL function that submits jobs then finds their policies, and need not write them in the open transaction of its caller. */
  async #storePolicies(): Promise<void> {
    const { registry, database, profile } = this.#options;
    const submitted = registry.all().filter(({ type }) => !isReserved(type));
    const resolved = submitted.map(({ layer }) => resolvePolicy({ registration: layer, profile }));
    const policies = resolved.flatMap((each) => (each.ok ? [each.policy] : []));
    await storePolicies(database.api, policies);
  }

  async #startWorker(): Promise<void> {
    const { database, registry, slots, reservedSlots, name, queues } = this.#options;
    const place = { name, host: hostname(), pid: process.pid, slots, reservedSlots };
    const served = { types: registry.types(), orgsOfTypes: registry.orgsOfTypes(), queues: [...queues] };
    const id = await registerWorker(database.workers, { ...place, ...served });
    const worker = this.#makeWorker(id);
    const heartbeat = new Heartbeat({
      database,
      worker,
      events: this.#options.events,
      leaseMs: this.#shortestLease(),
      maxIntervalMs: this.#options.heartbeatMs,
      exitWhenBlocked: this.#options.exitWhenBlocked,
      onDead: () => {
        this.#isDeclaredDead = true;
        this.#poll.wake();
      },
    });
    await heartbeat.start();
    this.#heartbeat = heartbeat;
    this.#worker = worker;
    worker.start();
  }

  #makeWorker(workerId: number): Worker {
    const { database, registry, events, spawn, catalogue, reservedSlots, maxResultBytes, news, logs, categories, artifacts } =
      this.#options;
    const ensureStarted = (attempt: RunningAttempt) => worker.ensureStarted(attempt);
    const kept = { database, events, maxResultBytes, news, logs, categories, artifacts };
    const services = { ...kept, workerId: () => workerId, spawn, ensureStarted };
    const servesSomeOrgs = registry.orgsOfTypes().size > 0;
    const worker: Worker = new Worker({
      ...this.#options,
      workerId,
      queues: this.#queues(),
      reservedSlots: () => (catalogue.hasSeveralOrgs ? reservedSlots : 0),
      fairQueues: () => catalogue.fairQueues,
      governedQueues: () => catalogue.governedQueues,
      reservedShares: () => catalogue.reservedShares,
      hasCaps: () => servesSomeOrgs || catalogue.hasCaps(registry.types()),
      contextOf: (attempt) => new HandlerContext(attempt, services),
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
    for (const { policyId } of started) {
      const policy = this.#options.policies.cached(policyId);
      if (policy !== undefined) this.#heartbeat?.shorten(policy.leaseMs);
    }
  }

  /** Polls for work, because hints may be lost. */
  async #round(): Promise<number> {
    if (this.#isDeclaredDead) {
      await this.#worker?.drain(0);
      await this.#stopWorker();
      this.#isDeclaredDead = false;
    }
    // If registering fails, the next round tries again.
    if (this.#worker === null) await this.#startWorker();
    this.#worker?.wake();
    return this.#options.pollMs;
  }

  async #stopWorker(): Promise<void> {
    const worker = this.#worker;
    await this.#heartbeat?.stop();
    this.#heartbeat = null;
    this.#worker = null;
    if (worker === null) return;
    await stopWorker(this.#options.database.workers, worker.id).catch((error) =>
      this.#options.events.emit('error', { error, where: 'supervisor' }),
    );
  }
}
