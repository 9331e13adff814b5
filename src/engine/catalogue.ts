import { AppError } from '../core/errors.ts';
import type { JobLimit } from '../core/limit.ts';
import { type QueueNames, STANDING_QUEUES } from '../core/submission-fields.ts';
import type { RegistrationPolicy } from '../core/submission-policy.ts';
import { type OrgSummary, summarizeOrgs } from '../ledger/access/orgs.ts';
import { type Batcher, createBatcher } from '../ledger/driver/batcher.ts';
import type { Database } from '../ledger/driver/database.ts';
import { type JobType, readTypes } from '../ledger/queues/job-types.ts';
import { introduceQueues, MAX_QUEUES, readQueues } from '../ledger/queues/queues.ts';
import type { EventHub } from './events.ts';
import { LoopService } from './loop.ts';

const REFRESH_MS = 1_000;

/** The queues, job types and caps in the ledger, at most a second old. */
export class Catalogue extends LoopService {
  readonly #database: Database;
  readonly #onChange: () => void;
  #queues = new Map<string, 'fifo' | 'fair'>();
  #fair: ReadonlySet<string> = new Set();
  #limits: ReadonlyMap<string, JobLimit> = new Map();
  #types = new Map<string, RegistrationPolicy>();
  #cappedTypes = new Set<string>();
  #orgs: OrgSummary = { areCapped: false, areSeveral: false };
  readonly #introducing: Batcher<string, string>;

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

  /** The defaults that the newest worker registered for the type. */
  registrationOf(type: string): RegistrationPolicy | undefined {
    return this.#types.get(type);
  }

  /** The limit of the jobs of a queue whose submission and type have none. */
  limitOf(queue: string): JobLimit | undefined {
    return this.#limits.get(queue);
  }

  hasCaps(types: readonly string[]): boolean {
    return this.#orgs.areCapped || types.some((type) => this.#cappedTypes.has(type));
  }

  /** Whether the ledger has more than one org. */
  get hasSeveralOrgs(): boolean {
    return this.#orgs.areSeveral;
  }

  /** For submissions that may name only queues that exist. */
  readonly queueNames: QueueNames = { has: (name) => this.#queues.has(name), list: () => this.queues };

  /** Makes workers serve the queue. Concurrent callers share a statement. */
  async ensureQueue(name: string): Promise<void> {
    if (!this.#queues.has(name)) await this.#introducing.add(name);
  }

  async #introduce(names: readonly string[]): Promise<(string | AppError)[]> {
    const { api } = this.#database;
    const standing = names.filter((name) => STANDING_QUEUES.includes(name));
    // The standing queues do not count towards the limit.
    if (standing.length > 0) await introduceQueues(api, standing, STANDING_QUEUES.length + MAX_QUEUES);
    const there = await introduceQueues(api, names);
    for (const name of there) if (!this.#queues.has(name)) this.#queues.set(name, 'fair');
    this.#fair = this.#fairOnes();
    this.#onChange();
    return names.map((name) => (there.has(name) ? name : tooManyQueues()));
  }

  async refresh(): Promise<void> {
    const [queues, types, orgs] = await Promise.all([
      readQueues(this.#database.maintenance),
      readTypes(this.#database.maintenance),
      summarizeOrgs(this.#database.maintenance),
    ]);
    const isChanged = queues.some((queue) => this.#queues.get(queue.name) !== queue.order);
    this.#queues = new Map(queues.map((queue) => [queue.name, queue.order]));
    this.#fair = this.#fairOnes();
    this.#limits = new Map(queues.flatMap(({ name, limit }) => (limit === null ? [] : [[name, limit] as const])));
    this.#types = new Map(types.map((type) => [type.name, layerOf(type)]));
    this.#cappedTypes = new Set(types.filter((type) => type.concurrency !== null).map((type) => type.name));
    this.#orgs = orgs;
    if (isChanged) this.#onChange();
  }

  #fairOnes(): ReadonlySet<string> {
    return new Set([...this.#queues].filter(([, order]) => order === 'fair').map(([name]) => name));
  }
}

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
