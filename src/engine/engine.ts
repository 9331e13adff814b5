import { AppError } from '../core/errors.ts';
import { categoriesWith, type Governance, governanceOf } from '../core/governance/category.ts';
import { queueDraining } from '../core/governance/queue-refusals.ts';
import type { Policy } from '../core/policy.ts';
import { DEFAULT_LIMITS, type SubmissionLimits } from '../core/submission.ts';
import type { RegistrationPolicy } from '../core/submission-policy.ts';
import { ProjectCache } from '../ledger/access/projects.ts';
import type { Database } from '../ledger/driver/database.ts';
import { ensurePartitions } from '../ledger/history/record-partitions.ts';
import { LimitCache } from '../ledger/jobs/intern-limits.ts';
import { PolicyCache } from '../ledger/jobs/intern-policies.ts';
import type { JobToWrite } from '../ledger/jobs/job-to-write.ts';
import { prepareSubmitting, prepareWorking } from '../ledger/jobs/prepare-connections.ts';
import { CallbackOrgs } from '../ledger/webhooks/callback-orgs.ts';
import type { ArtifactStorage } from './artifacts/artifact-storage.ts';
import { Catalogue } from './catalogue.ts';
import { crewOptions } from './crew-options.ts';
import type { EngineOptions, PrepareSubmission } from './engine-options.ts';
import { EventHub } from './events.ts';
import { JobWatcher } from './follow/job-watcher.ts';
import { Reader } from './follow/reader.ts';
import { SearchTurns } from './follow/search-turns.ts';
import type { Service } from './loop.ts';
import { type Hint, Notifier } from './notifier.ts';
import { createDeadLetterParts, type DeadLetterParts } from './operations/dead-letter-parts.ts';
import { Canceller } from './submit/canceller.ts';
import { HeldJobs } from './submit/held-jobs.ts';
import { type AcceptedJobs, JobWriter } from './submit/job-writer.ts';
import type { SubmissionRequest } from './submit/prepared.ts';
import { Spawner } from './submit/spawner.ts';
import { Submitter } from './submit/submitter.ts';
import { Granter } from './upkeep/granter.ts';
import { Releaser } from './upkeep/releaser.ts';
import { ScheduleTurns } from './upkeep/schedule-turns.ts';
import { Scheduler } from './upkeep/scheduler.ts';
import { Stager } from './upkeep/stager.ts';
import { upkeepLoops } from './upkeep-loops.ts';
import { type Crew, type CrewParts, Crews } from './work/crews.ts';
import { KnownOrgs } from './work/known-orgs.ts';
import { LogWriter } from './work/log-writer.ts';
import { Producers } from './work/producers.ts';
import { HandlerRegistry } from './work/registry.ts';
import { Supervisor } from './work/supervisor.ts';

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
  readonly projects: ProjectCache;
  readonly profile: Policy;
  readonly governance: Governance;
  readonly submitter: Submitter;
  readonly writer: JobWriter;
  readonly reader: Reader;
  readonly watcher: JobWatcher;
  readonly canceller: Canceller;
  readonly heldJobs: HeldJobs;
  readonly activeTrace: (() => string | null) | undefined;
  readonly searches: SearchTurns;
  readonly notifier: Notifier;
  readonly scheduleTurns: ScheduleTurns;
  readonly deadLetters: DeadLetterParts;
  /** Called when producers have published tasks. */
  onIntake: () => void = () => {};
  /** Where this process keeps artifacts. Null: nowhere. */
  artifacts: ArtifactStorage | null = null;
  readonly #logs: LogWriter;
  readonly #stager: Stager;
  readonly #releaser: Releaser;
  readonly #granter: Granter;
  readonly #scheduler: Scheduler;
  readonly #crews: Crews;
  readonly #producers = new Producers();
  readonly #orgs: KnownOrgs;
  readonly #spawner: Spawner;
  readonly #prepare: PrepareSubmission<Engine>;
  readonly #background: readonly Service[];
  #isRunning = false;
  #starting: Promise<void> = Promise.resolve();

  constructor(options: EngineOptions<Engine>) {
    const { database, profile } = options;
    const { events } = this;
    this.profile = profile;
    this.governance = governanceOf(options.categories ?? categoriesWith(), profile);
    this.#prepare = options.prepare;
    this.database = database;
    this.limits = options.limits ?? DEFAULT_LIMITS;
    this.policies = new PolicyCache(database.api);
    this.jobLimits = new LimitCache(database.api);
    this.registry = new HandlerRegistry(profile, options.wrapHandler);
    this.activeTrace = options.activeTrace;
    this.catalogue = new Catalogue({ database, events, onChange: () => this.#crews.refresh() });
    this.#orgs = new KnownOrgs({ database, events, deleting: () => this.catalogue.deletingOrgs });
    this.callbackOrgs = new CallbackOrgs(database.api);
    this.projects = new ProjectCache(database.api);
    this.reader = new Reader({ database });
    this.searches = new SearchTurns({ database, orgShare: options.orgShare });
    this.heldJobs = new HeldJobs({ database });
    this.canceller = new Canceller({ database, heldJobs: this.heldJobs, events });
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
    this.#logs = new LogWriter({ database, events, news: this.notifier.news });
    this.#granter = new Granter({ database, events, onGranted: () => this.hint('granted') });
    this.#stager = new Stager({ database, events, onStaged: onReady });
    this.#releaser = new Releaser({ database, events, onReleased: onReady });
    this.scheduleTurns = new ScheduleTurns({
      prepare: (request) => this.prepare(request),
      admit: async (entry) => {
        // A schedule brings new jobs, unlike a handler, whose children belong to a job that was accepted.
        if (this.catalogue.intakeOf(entry.job.queue).isDraining) throw queueDraining(entry.job.queue);
        await options.admitChild?.(entry);
      },
      write: (entry, client) => this.writer.writeTogether([entry], client),
      hint: (hint) => this.hint(hint),
    });
    this.deadLetters = createDeadLetterParts({
      database,
      events,
      writer: this.writer,
      terms: options.deadLetters,
      maxPayloadBytes: this.limits.maxPayloadBytes,
      prepare: (request) => this.#prepare(this, request),
      hint: (hint) => this.hint(hint),
    });
    this.#scheduler = new Scheduler({ database, events, turns: this.scheduleTurns });
    this.#crews = new Crews({ profile, makeSupervisor: (parts) => this.#makeSupervisor(options, parts) });
    this.#crews.join({ name: '', slots, queues: options.queues ?? ['*'], registry: this.registry });
    const { policies } = this;
    const upkeep = upkeepLoops(options, { events, policies, onReleased, onReady, artifacts: () => this.artifacts });
    const loops = [this.#stager, this.#releaser, this.#granter, this.#scheduler, ...upkeep];
    this.#background = [this.catalogue, this.notifier, ...loops, ...this.deadLetters.loops];
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

  /** Whether a worker has ever registered the type. */
  knowsType(type: string): boolean {
    return this.#crews.handlerOf(type) !== undefined || this.catalogue.isRegistered(type);
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
    await this.#logs.idle();
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
    else if (hint === 'intake') this.onIntake();
    else this.catalogue.wake();
  }

  #onAccepted(accepted: AcceptedJobs, { isFollowed = false, isNotified = false } = {}): void {
    const { readyTypes, limitIds, isTimed, isPending, duplicates } = accepted;
    if (duplicates > 0) this.events.emit('deduplicated', { submissions: duplicates });
    if (limitIds.size > 0 && this.#isRunning) this.#granter.wakeFor(limitIds);
    else if (limitIds.size > 0) this.notifier.hintLimits(limitIds);
    if (!isFollowed) for (const type of readyTypes) this.#crews.wakeFor(type);
    if (readyTypes.size > 0 && !isNotified) this.notifier.hint('ready');
    if (isTimed) this.hint('timers');
    if (isPending) this.hint('releases');
  }

  #makeSupervisor(options: EngineOptions<Engine>, crew: CrewParts): Supervisor {
    const { database, events, policies, catalogue } = this;
    const supervisor: Supervisor = new Supervisor({
      ...crewOptions(options, crew),
      database,
      events,
      policies,
      catalogue,
      maxPayloadBytes: this.limits.maxPayloadBytes,
      producers: this.#producers,
      orgs: this.#orgs,
      categories: this.governance.categories,
      news: this.notifier.news,
      logs: crew.storesLogs === false ? null : this.#logs,
      artifacts: () => this.artifacts,
      onReleased: () => this.hint('releases'),
      onLimitFree: (limitId) => this.#granter.wakeFor([limitId]),
      onDelayed: (delayMs) => (delayMs === 0 ? this.hint('ready') : this.hint('timers')),
      spawn: (attempt, request) => this.#spawner.spawn({ ...request, attempt, workerId: supervisor.workerId }),
    });
    return supervisor;
  }
}
