import { AppError } from '../core/errors.ts';
import type { JobLimit } from '../core/limit.ts';
import { DEAD_LETTER_QUEUE, type QueueNames, STANDING_QUEUES } from '../core/submission-fields.ts';
import type { RegistrationPolicy } from '../core/submission-policy.ts';
import { type OrgSummary, summarizeOrgs } from '../ledger/access/orgs.ts';
import { findDeletingOrgs } from '../ledger/access/standing-orgs.ts';
import { type Batcher, createBatcher } from '../ledger/driver/batcher.ts';
import type { Database } from '../ledger/driver/database.ts';
import { type JobType, readTypes } from '../ledger/queues/job-types.ts';
import { introduceQueues, MAX_QUEUES, type Queue, readQueues } from '../ledger/queues/queues.ts';
import type { EventHub } from './events.ts';
import { LoopService } from './loop.ts';

const REFRESH_MS = 1_000;
const LEARN_EVERY_MS = 100;

/** The queues, job types and caps in the ledger, at most a second old. */
export class Catalogue extends LoopService {
  readonly #database: Database;
  readonly #onChange: () => void;
  #queues: ReadonlyMap<string, ListedQueue> = new Map();
  #fair: ReadonlySet<string> = new Set();
  #governed: ReadonlySet<string> = new Set();
  #reservedShares: ReadonlyMap<string, number> = new Map();
  #types = new Map<string, RegistrationPolicy>();
  #registered = new Set<string>();
  #cappedTypes = new Set<string>();
  #orgs: OrgSummary = { areCapped: false, areSeveral: false };
  #deleting: ReadonlySet<string> = new Set();
  readonly #introducing: Batcher<string, string>;
  #learning: Promise<void> = Promise.resolve();
  #learnedMs = Number.NEGATIVE_INFINITY;
  #lastRefresh = 0;
  /** The refresh whose result is shown. */
  #shownRefresh = 0;

  constructor(params: { database: Database; events: EventHub; onChange(): void }) {
    super({ name: 'catalogue', events: params.events });
    this.#database = params.database;
    this.#onChange = params.onChange;
    this.#introducing = createBatcher<string, string>({
      send: (names) => this.#introduce(names),
      maxItems: 10_000,
      maxInFlight: 1,
      maxWaiting: 100_000,
      overflow: tooManyQueues,
    });
  }

  async round(): Promise<number> {
    await this.refresh();
    return REFRESH_MS;
  }

  get queues(): readonly string[] {
    return [...this.#queues.keys()];
  }

  get fairQueues(): ReadonlySet<string> {
    return this.#fair;
  }

  /** The queues with a cap or a rate. */
  get governedQueues(): ReadonlySet<string> {
    return this.#governed;
  }

  /** The part of each worker's slots that is kept for a queue. Queues without one are absent. */
  get reservedShares(): ReadonlyMap<string, number> {
    return this.#reservedShares;
  }

  /** Whether the queue accepts new jobs, and how many may wait there. */
  intakeOf(queue: string): QueueIntake {
    const known = this.#queues.get(queue);
    return { isDraining: known?.drainingAt != null, depthCap: known?.depthCap ?? null };
  }

  /** The defaults that the newest worker registered for the type. */
  registrationOf(type: string): RegistrationPolicy | undefined {
    return this.#types.get(type);
  }

  /** Whether a worker has ever registered the type. A type that an operator paused or limited may have none. */
  isRegistered(type: string): boolean {
    return this.#registered.has(type);
  }

  /** The limit of the jobs of a queue whose submission and type have none. */
  limitOf(queue: string): JobLimit | undefined {
    return this.#queues.get(queue)?.limit ?? undefined;
  }

  hasCaps(types: readonly string[]): boolean {
    return this.#orgs.areCapped || types.some((type) => this.#cappedTypes.has(type));
  }

  /** Whether the ledger has more than one org. */
  get hasSeveralOrgs(): boolean {
    return this.#orgs.areSeveral;
  }

  /** The orgs that are being deleted. Their jobs do not run. */
  get deletingOrgs(): ReadonlySet<string> {
    return this.#deleting;
  }

  /** For submissions that may name only queues that exist. */
  readonly queueNames: QueueNames = { has: (name) => this.#queues.has(name), list: () => this.queues };

  /** Makes workers serve the queue. Concurrent callers share a statement. */
  async ensureQueue(name: string): Promise<void> {
    if (!this.#queues.has(name)) await this.#introducing.add(name);
  }

  /** Reads the types again if the type is not known. Callers at the same time share a read, and there is at most one in 100 ms. */
  async learnType(type: string): Promise<void> {
    if (this.#registered.has(type)) return;
    const isRecent = performance.now() - this.#learnedMs < LEARN_EVERY_MS;
    if (!isRecent) {
      this.#learnedMs = performance.now();
      this.#learning = this.refresh();
    }
    await this.#learning;
  }

  async #introduce(names: readonly string[]): Promise<(string | AppError)[]> {
    const { api } = this.#database;
    const standing = names.filter((name) => STANDING_QUEUES.includes(name));
    // The standing queues do not count towards the limit.
    if (standing.length > 0) await introduceQueues(api, standing, STANDING_QUEUES.length + MAX_QUEUES);
    const there = await introduceQueues(api, names);
    const fresh = [...there].filter((name) => !this.#queues.has(name)).map((name): [string, ListedQueue] => [name, NEW_QUEUE]);
    this.#setQueues(new Map([...this.#queues, ...fresh]));
    this.#onChange();
    // Another process may have created and configured them.
    this.wake();
    return names.map((name) => (there.has(name) ? name : tooManyQueues()));
  }

  /** What it reads includes every change that was committed before the call. A read that began earlier and ends later changes nothing. */
  async refresh(): Promise<void> {
    const no = ++this.#lastRefresh;
    const [queues, types, orgs, deleting] = await Promise.all([
      readQueues(this.#database.maintenance),
      readTypes(this.#database.maintenance),
      summarizeOrgs(this.#database.maintenance),
      findDeletingOrgs(this.#database.maintenance),
    ]);
    if (no < this.#shownRefresh) return;
    this.#shownRefresh = no;
    // No job waits in the queue that shows the dead letters.
    const claimed = queues.filter(({ name }) => name !== DEAD_LETTER_QUEUE);
    const isChanged = claimed.some((queue) => claimingOf(this.#queues.get(queue.name)) !== claimingOf(queue));
    this.#setQueues(new Map(claimed.map((queue) => [queue.name, queue])));
    this.#types = new Map(types.map((type) => [type.name, layerOf(type)]));
    this.#registered = new Set(types.filter(({ isRegistered }) => isRegistered).map(({ name }) => name));
    this.#cappedTypes = new Set(types.filter((type) => type.concurrency !== null).map((type) => type.name));
    this.#orgs = orgs;
    this.#deleting = deleting;
    if (isChanged) this.#onChange();
  }

  #setQueues(queues: ReadonlyMap<string, ListedQueue>): void {
    const named = (condition: (queue: ListedQueue) => boolean) =>
      new Set([...queues].filter(([, queue]) => condition(queue)).map(([name]) => name));
    this.#queues = queues;
    this.#fair = named(({ order }) => order === 'fair');
    this.#governed = named(({ concurrency, rate }) => concurrency !== null || rate !== null);
    this.#reservedShares = new Map([...queues].flatMap(([name, { reservedShare: share }]) => (share ? [[name, share] as const] : [])));
  }
}

type ListedQueue = Omit<Queue, 'name' | 'pausedAt' | 'sloSeconds'>;

const NEW_QUEUE: ListedQueue = Object.freeze({
  order: 'fair',
  drainingAt: null,
  limit: null,
  concurrency: null,
  rate: null,
  depthCap: null,
  reservedShare: null,
});

export type QueueIntake = { readonly isDraining: boolean; readonly depthCap: number | null };

/** What workers must know of a queue to claim from it. They claim by the ledger's numbers of a cap or a rate. */
const claimingOf = (queue: ListedQueue | undefined): string | undefined =>
  queue && `${queue.order} ${queue.concurrency !== null || queue.rate !== null} ${queue.reservedShare ?? 0}`;

// Every worker looks for jobs in each queue, so one queue for each customer would slow all workers down.
const tooManyQueues = (): AppError =>
  new AppError('QUOTA_EXCEEDED', {
    message: `There are already ${MAX_QUEUES} queues, the most that submissions may create. Use fewer queues: tags can tell jobs apart, and a fair queue lets orgs take turns.`,
    quota: { limit: 'queues', current: MAX_QUEUES, maximum: MAX_QUEUES, retryAfterMs: 60_000 },
  });

// Makes one object for each type and refresh, because the policy cache recognises policies of the same layer by identity. A custom backoff
// is a function of the application, so it counts only while a worker that has it is alive.
const layerOf = ({ defaults, customBackoff, isServed }: JobType): RegistrationPolicy => ({
  ...defaults,
  hasCustomBackoff: customBackoff && isServed,
});
