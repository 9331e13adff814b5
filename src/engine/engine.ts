import { hostname } from 'node:os';
import { AppError } from '../core/errors.ts';
import { LeaseLostError } from '../core/failure.ts';
import type { Policy } from '../core/policy.ts';
import { DEFAULT_LIMITS, type SubmissionLimits } from '../core/submission.ts';
import type { Database } from '../ledger/driver/database.ts';
import { ensurePartitions } from '../ledger/history/record-partitions.ts';
import { PolicyCache } from '../ledger/jobs/intern-policies.ts';
import type { JobToWrite } from '../ledger/jobs/job-to-write.ts';
import { prepareSubmitting, prepareWorking } from '../ledger/jobs/prepare-connections.ts';
import { EventHub } from './events.ts';
import { JobWatcher } from './follow/job-watcher.ts';
import { Reader } from './follow/reader.ts';
import type { Service } from './loop.ts';
import { type Hint, Notifier } from './notifier.ts';
import { Settings } from './settings.ts';
import { Canceller } from './submit/canceller.ts';
import { HeldJobs } from './submit/held-jobs.ts';
import { Submitter, type SubmitterOptions } from './submit/submitter.ts';
import { Projector } from './upkeep/projector.ts';
import { Pruner } from './upkeep/pruner.ts';
import { Releaser } from './upkeep/releaser.ts';
import { Rescuer } from './upkeep/rescuer.ts';
import { Scheduler } from './upkeep/scheduler.ts';
import { Stager } from './upkeep/stager.ts';
import { type Crew, type CrewParts, Crews } from './work/crews.ts';
import type { Execution } from './work/execution.ts';
import type { SpawnRequest } from './work/handler-context.ts';
import { HandlerRegistry } from './work/registry.ts';
import { Supervisor } from './work/supervisor.ts';

export type EngineOptions = {
  database: Database;
  profile: Policy;
  limits?: SubmissionLimits;
  name?: string;
  /** Jobs run at once in this process. */
  concurrency?: number;
  queues?: readonly string[];
  pollMs?: number;
  expireEveryMs?: number;
  /** The longest pause between two heartbeats; shorter leases shorten it. */
  heartbeatMs?: number;
  /** How long a revoked API key is remembered; without it this process removes none. */
  revokedKeysMs?: number;
};

type Accepted = Parameters<SubmitterOptions['onAccepted']>[0];

type SpawnParams = SpawnRequest & { execution: Execution; workerId: number };

/** Later than this, polling finds it anyway. */
const HINTS_AFTER_COMMIT_MS = [10, 50, 250];

/** Everything that moves jobs in one process. Accepts work as soon as it is open; runs it between start and stop. */
export class Engine implements Service {
  readonly database: Database;
  readonly events = new EventHub();
  readonly limits: SubmissionLimits;
  readonly policies: PolicyCache;
  readonly registry: HandlerRegistry;
  readonly settings: Settings;
  readonly submitter: Submitter;
  readonly reader: Reader;
  readonly watcher: JobWatcher;
  readonly canceller: Canceller;
  readonly heldJobs: HeldJobs;
  readonly notifier: Notifier;
  readonly #stager: Stager;
  readonly #releaser: Releaser;
  readonly #scheduler: Scheduler;
  readonly #crews: Crews;
  readonly #background: readonly Service[];
  readonly #profile: Policy;
  #isRunning = false;
  #starting: Promise<void> = Promise.resolve();

  constructor(options: EngineOptions) {
    const { database, profile } = options;
    const { events } = this;
    this.#profile = profile;
    this.database = database;
    this.limits = options.limits ?? DEFAULT_LIMITS;
    this.policies = new PolicyCache(database.api);
    this.registry = new HandlerRegistry(profile);
    this.settings = new Settings({ database, events, onChange: () => this.#crews.refresh() });
    this.reader = new Reader({ database });
    this.heldJobs = new HeldJobs({ database });
    this.canceller = new Canceller({ database, heldJobs: this.heldJobs });
    this.watcher = new JobWatcher({ database, events });
    this.submitter = new Submitter({
      ...{ database, profile, policies: this.policies, limits: this.limits },
      registrationOf: (type) => this.#crews.handlerOf(type)?.layer ?? this.settings.registrationOf(type),
      fairQueues: () => this.settings.fairQueues,
      ensureQueue: (name) => this.settings.ensureQueue(name),
      queues: { has: (name) => this.settings.knowsQueue(name), list: () => this.settings.queues },
      // A process that works has ten sessions at most, and needs them for other things.
      hasSpareSession: () => !(database.sharesSessions && this.#isRunning),
      offer: (job, take) => (this.#isRunning ? this.#crews.offer(job, take) : null),
      announce: (db, jobs) => this.notifier.hint('ready', db, jobs),
      onAccepted: (accepted) => this.#onAccepted(accepted),
    });
    const slots = options.concurrency ?? 10;
    const onReady = () => this.hint('ready');
    const onReleased = () => this.hint('releases');
    this.notifier = new Notifier({ database, events, onHint: (hint) => this.#onHint(hint) });
    this.#stager = new Stager({ database, events, onStaged: onReady });
    this.#releaser = new Releaser({ database, events, onReleased: onReady });
    this.#scheduler = new Scheduler({
      ...{ database, events, onFired: onReady },
      submitIn: async (client, orgId, submission) => {
        const prepared = await this.submitter.prepare(orgId, submission, 'system:scheduler');
        if (!prepared.ok) throw new AppError('INVALID_REQUEST', { details: prepared.issues });
        await this.submitter.writePlaced([prepared.entry], client);
      },
    });
    this.#crews = new Crews({ profile, make: (parts) => this.#makeSupervisor(options, parts) });
    this.#crews.join({ name: '', slots, queues: options.queues ?? ['*'], registry: this.registry });
    const rescuer = new Rescuer({ database, policies: this.policies, events, onReleased, onRescued: onReady });
    const { expireEveryMs, revokedKeysMs } = options;
    const pruner = new Pruner({ database, events, onReleased, expireEveryMs, revokedKeysMs });
    const projector = new Projector({ database, events });
    this.#background = [
      ...[this.settings, this.notifier, this.#stager, this.#releaser, this.#scheduler],
      ...[rescuer, pruner, projector],
    ];
  }

  /** Must precede the start. */
  addCrew(crew: Crew): void {
    this.#crews.add(crew);
  }

  /** Must precede the first submission: learns what queues and types there are. */
  async open(): Promise<void> {
    await ensurePartitions(this.database.maintenance, { daysAhead: 7 });
    await this.settings.refresh();
    await this.policies.idOf(this.#profile); // Most jobs get it.
    await prepareSubmitting(this.database);
    this.notifier.open();
  }

  /** The end of a process that may never have worked. */
  async close(graceMs: number): Promise<void> {
    await this.drain(graceMs);
    await this.submitter.idle();
    await this.watcher.stop();
    await this.notifier.close();
  }

  /** Whether some worker, here or elsewhere, has said that it handles the type. */
  knowsType(type: string): boolean {
    return this.#crews.handlerOf(type) !== undefined || this.settings.registrationOf(type) !== undefined;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** A start that fails leaves nothing at work, and may be tried again. */
  start(): Promise<void> {
    if (this.#isRunning) return this.#starting;
    this.#isRunning = true;
    this.#starting = this.#startAll().catch(async (error) => {
      await this.#stopAll(0);
      throw error;
    });
    return this.#starting;
  }

  /** Stops claiming, lets handlers finish for `graceMs`, gives the rest back, then stops everything else. */
  async drain(graceMs: number): Promise<void> {
    await this.#starting.catch(() => {});
    if (this.#isRunning) await this.#stopAll(graceMs);
  }

  stop(): Promise<void> {
    return this.drain(0);
  }

  async #startAll(): Promise<void> {
    void prepareWorking(this.database);
    if (this.database.sharesSessions) await this.database.submittingMore.close();
    await this.#crews.start();
    for (const service of this.#background) await service.start();
  }

  async #stopAll(graceMs: number): Promise<void> {
    await this.#crews.drain(graceMs);
    await Promise.all(this.#background.map((service) => service.stop()));
    this.#isRunning = false;
  }

  /** Something changed: act here at once, and tell other processes. */
  hint(hint: Hint): void {
    this.#onHint(hint);
    this.notifier.hint(hint);
  }

  /** What somebody else's transaction brings is there when that commits, soon but not now. */
  hintLater(): void {
    for (const delayMs of HINTS_AFTER_COMMIT_MS) setTimeout(() => this.#hintAll(), delayMs).unref();
  }

  #hintAll(): void {
    for (const hint of ['ready', 'timers', 'releases'] as const) this.hint(hint);
  }

  #onHint(hint: Hint): void {
    if (hint === 'ready') this.#crews.wake();
    else if (hint === 'timers') this.#stager.wake();
    else if (hint === 'releases') this.#releaser.wake();
    else if (hint === 'cancel') this.#crews.checkCancels();
    else this.settings.wake();
  }

  #onAccepted({ written, entries, isFollowed, isAnnounced }: Accepted): void {
    let isReady = false;
    let isTimed = false;
    let isPending = false;
    let woken: string | null = null;
    for (const [index, each] of written.entries()) {
      if (each.kind !== 'accepted') continue;
      if (each.state === 'scheduled') {
        isReady = true;
        const { type } = (entries[index] as JobToWrite).job;
        if (!isFollowed && type !== woken) this.#crews.wakeFor(type);
        woken = type;
      } else if (each.state === 'delayed') isTimed = true;
      else isPending = true;
    }
    if (isReady && !isAnnounced) this.notifier.hint('ready');
    if (isTimed) this.hint('timers');
    if (isPending) this.hint('releases');
  }

  #makeSupervisor(
    options: EngineOptions,
    { name, slots, queues, registry, startsApart = false }: CrewParts,
  ): Supervisor {
    const { database, events, policies, settings } = this;
    const ownName = options.name ?? `${hostname()}:${process.pid}`;
    const supervisor: Supervisor = new Supervisor({
      ...{ database, events, policies, settings, profile: options.profile, registry, slots, queues },
      name: name === '' ? ownName : `${ownName}/${name}`,
      startsApart,
      pollMs: options.pollMs ?? 1_000,
      heartbeatMs: options.heartbeatMs,
      onReleased: () => this.hint('releases'),
      onDelayed: (delayMs) => (delayMs === 0 ? this.hint('ready') : this.hint('timers')),
      spawn: (execution, request) => this.#spawn({ ...request, execution, workerId: supervisor.workerId }),
    });
    return supervisor;
  }

  /** Null: the transaction that it was meant for has ended. */
  async #spawn({ execution, submission, join, transaction, workerId }: SpawnParams): Promise<string | null> {
    const { job } = execution;
    const actor = `system:job ${job.id}`;
    const prepared = await this.submitter.prepare(job.orgId, submission, actor);
    if (!prepared.ok) throw new AppError('INVALID_REQUEST', { details: prepared.issues });
    const lease = { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, workerId, join };
    const spawned = { entry: prepared.entry, inheritsPriority: submission.priority == null };
    const answer = await this.submitter.spawn(lease, spawned, transaction);
    if (answer.kind === 'transaction_ended') return null;
    if (answer.kind === 'lost') throw new LeaseLostError();
    if (transaction !== null) this.hintLater();
    if (join) execution.joinsChildren = true;
    const { written } = answer;
    if (written.kind === 'accepted') return written.id;
    if (written.sameRequest) return written.existingId;
    throw new AppError('DUPLICATE');
  }
}
