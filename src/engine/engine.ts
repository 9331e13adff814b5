import { hostname } from 'node:os';
import { AppError } from '../core/errors.ts';
import { DEFAULT_MAX_RESULT_BYTES } from '../core/payload.ts';
import type { Policy } from '../core/policy.ts';
import { DEFAULT_LIMITS, type SubmissionLimits } from '../core/submission.ts';
import type { RegistrationPolicy } from '../core/submission-policy.ts';
import type { Database } from '../ledger/driver/database.ts';
import { ensurePartitions } from '../ledger/history/record-partitions.ts';
import { LimitCache } from '../ledger/jobs/intern-limits.ts';
import { PolicyCache } from '../ledger/jobs/intern-policies.ts';
import type { JobToWrite } from '../ledger/jobs/job-to-write.ts';
import { prepareSubmitting, prepareWorking } from '../ledger/jobs/prepare-connections.ts';
import { CallbackOrgs } from '../ledger/webhooks/callback-orgs.ts';
import { Catalogue } from './catalogue.ts';
import { EventHub } from './events.ts';
import { JobWatcher } from './follow/job-watcher.ts';
import { Reader } from './follow/reader.ts';
import { SearchTurns } from './follow/search-turns.ts';
import type { Service } from './loop.ts';
import { type Hint, Notifier } from './notifier.ts';
import { Canceller } from './submit/canceller.ts';
import { HeldJobs } from './submit/held-jobs.ts';
import { type AcceptedJobs, JobWriter } from './submit/job-writer.ts';
import type { Prepared, SubmissionRequest } from './submit/prepared.ts';
import { type AdmitChild, Spawner } from './submit/spawner.ts';
import { Submitter } from './submit/submitter.ts';
import { Granter } from './upkeep/granter.ts';
import { Pruner } from './upkeep/pruner.ts';
import { Releaser } from './upkeep/releaser.ts';
import { Rescuer } from './upkeep/rescuer.ts';
import { RollupWriter } from './upkeep/rollup-writer.ts';
import { Scheduler } from './upkeep/scheduler.ts';
import { SessionWatch } from './upkeep/session-watch.ts';
import { Stager } from './upkeep/stager.ts';
import { type Crew, type CrewParts, Crews } from './work/crews.ts';
import { Producers } from './work/producers.ts';
import { HandlerRegistry } from './work/registry.ts';
import { reserveOf } from './work/slot-reserve.ts';
import { Supervisor } from './work/supervisor.ts';

export type EngineOptions = {
  database: Database;
  profile: Policy;
  /** Validates the jobs that schedules submit and handlers spawn, by the rules of every door. */
  prepare: PrepareSubmission;
  /** Throws if the org of a child has no room for it. Without it, children have no limit. */
  admitChild?: AdmitChild;
  /** The part of the connections for searches that one org may use while it is alone. */
  orgShare?: number;
  limits?: SubmissionLimits;
  /** The largest result of a job that runs here. Default: 1 MB. */
  maxResultBytes?: number;
  name?: string;
  /** How many jobs this process runs at the same time. */
  concurrency?: number;
  /** The percentage of the slots that only orgs may take of which the worker runs no job. Default 0. */
  reservePercent?: number;
  queues?: readonly string[];
  pollMs?: number;
  expireEveryMs?: number;
  /** The longest pause between two heartbeats. Short leases need shorter ones. */
  heartbeatMs?: number;
  /** Whether to end the process when its event loop stays blocked past the timeout of a handler. Default: true. */
  exitWhenBlocked?: boolean;
  /** How long a revoked API key is kept. Without it, this process removes none. */
  revokedKeysMs?: number;
};

export type PrepareSubmission = (engine: Engine, request: SubmissionRequest) => Prepared | Promise<Prepared>;

/** Everything that moves jobs in one process. It accepts jobs once it is open, and runs them between start and stop. */
export class Engine implements Service {
  readonly database: Database;
  readonly events = new EventHub();
  readonly limits: SubmissionLimits;
  readonly policies: PolicyCache;
  readonly jobLimits: LimitCache;
  readonly registry: HandlerRegistry;
  readonly catalogue: Catalogue;
  readonly callbackOrgs: CallbackOrgs;
  readonly profile: Policy;
  readonly submitter: Submitter;
  readonly writer: JobWriter;
  readonly reader: Reader;
  readonly watcher: JobWatcher;
  readonly canceller: Canceller;
  readonly heldJobs: HeldJobs;
  readonly searches: SearchTurns;
  readonly notifier: Notifier;
  readonly #stager: Stager;
  readonly #releaser: Releaser;
  readonly #granter: Granter;
  readonly #scheduler: Scheduler;
  readonly #crews: Crews;
  readonly #producers = new Producers();
  readonly #spawner: Spawner;
  readonly #prepare: PrepareSubmission;
  readonly #background: readonly Service[];
  #isRunning = false;
  #starting: Promise<void> = Promise.resolve();

  constructor(options: EngineOptions) {
    const { database, profile } = options;
    const { events } = this;
    this.profile = profile;
    this.#prepare = options.prepare;
    this.database = database;
    this.limits = options.limits ?? DEFAULT_LIMITS;
    this.policies = new PolicyCache(database.api);
    this.jobLimits = new LimitCache(database.api);
    this.registry = new HandlerRegistry(profile);
    this.catalogue = new Catalogue({ database, events, onChange: () => this.#crews.refresh() });
    this.callbackOrgs = new CallbackOrgs(database.api);
    this.reader = new Reader({ database });
    this.searches = new SearchTurns({ database, orgShare: options.orgShare });
    this.heldJobs = new HeldJobs({ database });
    this.canceller = new Canceller({ database, heldJobs: this.heldJobs });
    this.watcher = new JobWatcher({ database, events });
    this.writer = new JobWriter({ database, onAccepted: (accepted) => this.#onAccepted(accepted) });
    this.submitter = new Submitter({
      database,
      writer: this.writer,
      producers: this.#producers,
      // A process that runs jobs has at most ten sessions and needs them for other work.
      hasSpareSession: () => !(database.sharesSessions && this.#isRunning),
      hintReady: (db, jobs) => this.notifier.hint('ready', db, jobs),
      onAccepted: (accepted, how) => this.#onAccepted(accepted, { ...how, isNotified: true }),
    });
    this.#spawner = new Spawner({ writer: this.writer, prepare: (request) => this.prepare(request), admit: options.admitChild });
    const slots = options.concurrency ?? 10;
    const onReady = () => this.hint('ready');
    const onReleased = () => this.hint('releases');
    this.notifier = new Notifier({
      database,
      events,
      onHint: (hint) => this.#onHint(hint),
      onLimits: (limitIds) => this.#granter.wakeFor(limitIds),
    });
    this.#granter = new Granter({ database, events, onGranted: () => this.hint('granted') });
    this.#stager = new Stager({ database, events, onStaged: onReady });
    this.#releaser = new Releaser({ database, events, onReleased: onReady });
    this.#scheduler = new Scheduler({
      database,
      events,
      submitIn: async (client, orgId, submission) => {
        const entry = await this.prepare({ orgId, submission, actor: 'system:scheduler' });
        await this.writer.writeTogether([entry], client);
      },
    });
    this.#crews = new Crews({ profile, makeSupervisor: (parts) => this.#makeSupervisor(options, parts) });
    this.#crews.join({ name: '', slots, queues: options.queues ?? ['*'], registry: this.registry });
    const rescuer = new Rescuer({ database, policies: this.policies, events, onReleased, onRescued: onReady });
    const { expireEveryMs, revokedKeysMs } = options;
    const pruner = new Pruner({ database, events, onReleased, expireEveryMs, revokedKeysMs });
    const rollupWriter = new RollupWriter({ database, events });
    const sessionWatch = new SessionWatch({ database, events });
    const loops = [this.#stager, this.#releaser, this.#granter, this.#scheduler, rescuer, pruner, rollupWriter, sessionWatch];
    this.#background = [this.catalogue, this.notifier, ...loops];
  }

  /** Call it before the start. */
  addCrew(crew: Crew): void {
    this.#crews.add(crew);
  }

  /** Call it before the first submission. Reads the queues and types that exist. */
  async open(): Promise<void> {
    await ensurePartitions(this.database.maintenance, { daysAhead: 7 });
    await this.catalogue.refresh();
    await this.policies.idOf(this.profile); // Most jobs have this policy.
    await prepareSubmitting(this.database);
    this.notifier.open();
  }

  /** Also ends a process that never ran jobs. */
  async close(graceMs: number): Promise<void> {
    await this.drain(graceMs);
    await this.submitter.idle();
    await this.watcher.stop();
    await this.notifier.close();
  }

  /** The defaults that a worker of this process registered for the type, or else a worker of another process. */
  registrationOf(type: string): RegistrationPolicy | undefined {
    return this.#crews.handlerOf(type)?.layer ?? this.catalogue.registrationOf(type);
  }

  /** Validates a submission that the program makes itself. */
  async prepare(request: SubmissionRequest): Promise<JobToWrite> {
    const prepared = await this.#prepare(this, request);
    if (!prepared.ok) throw new AppError('INVALID_REQUEST', { details: prepared.issues });
    return prepared.entry;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** Whether a handler is running in this process. */
  get isBusy(): boolean {
    return this.#crews.isBusy;
  }

  /** A start that fails stops everything it has started, and may be repeated. */
  start(): Promise<void> {
    if (this.#isRunning) return this.#starting;
    this.#isRunning = true;
    this.#starting = this.#startAll().catch(async (error) => {
      await this.#stopAll(0);
      throw error;
    });
    return this.#starting;
  }

  /** Stops claiming, lets handlers finish for `graceMs`, returns the remaining jobs, then stops everything else. */
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

  /** Wakes the parts of this process that the change concerns, and sends the hint to other processes. */
  hint(hint: Hint): void {
    this.#onHint(hint);
    if (hint === 'ready') this.#granter.sweepSoon();
    this.notifier.hint(hint);
  }

  #onHint(hint: Hint): void {
    if (hint === 'ready') this.#crews.wake();
    else if (hint === 'granted') this.#crews.wake({ isForOld: true });
    else if (hint === 'timers') this.#stager.wake();
    else if (hint === 'releases') this.#releaser.wake();
    else if (hint === 'cancel') this.#crews.checkCancels();
    else this.catalogue.wake();
  }

  #onAccepted(accepted: AcceptedJobs, { isFollowed = false, isNotified = false } = {}): void {
    const { readyTypes, limitIds, isTimed, isPending } = accepted;
    if (limitIds.size > 0 && this.#isRunning) this.#granter.wakeFor(limitIds);
    else if (limitIds.size > 0) this.notifier.hintLimits(limitIds);
    if (!isFollowed) for (const type of readyTypes) this.#crews.wakeFor(type);
    if (readyTypes.size > 0 && !isNotified) this.notifier.hint('ready');
    if (isTimed) this.hint('timers');
    if (isPending) this.hint('releases');
  }

  #makeSupervisor(
    options: EngineOptions,
    { name, slots, queues, registry, startsApart = false, servesOneOrg = false }: CrewParts,
  ): Supervisor {
    const { database, events, policies, catalogue } = this;
    const ownName = options.name ?? `${hostname()}:${process.pid}`;
    const supervisor: Supervisor = new Supervisor({
      database,
      events,
      policies,
      catalogue,
      profile: options.profile,
      producers: this.#producers,
      registry,
      slots,
      reservedSlots: servesOneOrg ? 0 : reserveOf(slots, options.reservePercent ?? 0),
      queues,
      maxResultBytes: options.maxResultBytes ?? DEFAULT_MAX_RESULT_BYTES,
      name: name === '' ? ownName : `${ownName}/${name}`,
      startsApart,
      pollMs: options.pollMs ?? 1_000,
      heartbeatMs: options.heartbeatMs,
      exitWhenBlocked: options.exitWhenBlocked ?? true,
      onReleased: () => this.hint('releases'),
      onLimitFree: (limitId) => this.#granter.wakeFor([limitId]),
      onDelayed: (delayMs) => (delayMs === 0 ? this.hint('ready') : this.hint('timers')),
      spawn: (attempt, request) => this.#spawner.spawn({ ...request, attempt, workerId: supervisor.workerId }),
    });
    return supervisor;
  }
}
