import { PAUSES, pauseMs } from '../../core/backoff.ts';
import type { StartedJob, Taken, TakeParams } from '../../ledger/attempts/take-jobs.ts';
import type { EventHub } from '../events.ts';
import type { Claims } from './claims.ts';
import { Lanes } from './lanes.ts';
import type { LeasedAhead } from './leased-ahead.ts';
import type { Take } from './taking.ts';

export type ProducerOptions = {
  take: Take;
  /** Leases jobs beyond the free slots. */
  takeAhead: Take;
  ahead: Pick<LeasedAhead, 'wanted' | 'length' | 'onClaimed'>;
  workerId: number;
  claims: Claims;
  events: EventHub;
  slots: number;
  queues: readonly string[];
  types: readonly string[];
  /** Of the queues, those whose order is their own. */
  fairQueues(): ReadonlySet<string>;
  /** Whether any served type or any org has a cap, so that claims must count first. */
  hasCaps(): boolean;
  /** Slots that are taken. */
  busy(): number;
  /** Hands over the jobs of a claim: started, or under lease where they were leased ahead or the worker starts jobs apart. */
  begin(jobs: readonly StartedJob[], claim: Claim): Promise<void>;
  /** Run what begin() brought. */
  fill(): void;
  /** A statement failed a while ago: what the ledger gave us may be more than we know. */
  reconcile(): Promise<void>;
};

export type Claim = { claimNo: number; sentMs: number; isAhead: boolean };

export type ServedJob = { readonly type: string; readonly queue: string };

type Flight = TakeParams & Claim & { runs: number; wakes: number };

const MAX_PER_STATEMENT = 500;
const SECOND_LOOK_MS = 100;
/** Another process holds what is first in line for the length of a statement, or it was gone. */
const CONTENDED_MS = 10;
/** On one connection: the database turns to the second as soon as it is done with the first. */
const MAX_FLIGHTS = 2;
/** What a statement must ask for to go out while another is under way. */
const MIN_FOLLOWING = 32;
/** Longer than any statement may take. */
const SUSPICION_MS = 15_000;

/** Claims as many jobs as there is room for, as long as there are any, and looks again when somebody says so. */
export class Producer {
  readonly #options: ProducerOptions;
  readonly #lanes = new Lanes();
  #flights = 0;
  /** Jobs that statements in flight asked for. */
  #asked = 0;
  #isHungry = true;
  #wakes = 0;
  #isDraining = false;
  #isScheduled = false;
  #failures = 0;
  #suspectUntilMs = 0;
  #secondLook: NodeJS.Timeout | null = null;

  constructor(options: ProducerOptions) {
    this.#options = options;
    this.#setLanes(options.queues);
  }

  /** There may be work: look now. */
  wake(): void {
    this.#isHungry = true;
    this.#wakes++;
    this.pumpSoon();
  }

  /** Whether this producer claims jobs of that queue and type. */
  serves({ queue, type }: ServedJob): boolean {
    return this.#lanes.has(queue, type);
  }

  /**
   * Claims with a statement of the submitter: one that writes a job and starts it, or a claim that follows the write on its
   * connection. Null: the producer is not idle, and the statement was not sent.
   */
  claimWith(take: Take): Promise<Taken> | null {
    if (this.#flights > 0 || this.#options.hasCaps()) return null;
    const limit = this.#room();
    return limit === 0 ? null : this.#launch(limit, { take, isAhead: false });
  }

  serve(queues: readonly string[]): void {
    this.#setLanes(queues);
    this.wake();
  }

  #setLanes(queues: readonly string[]): void {
    this.#lanes.set({ queues, types: this.#options.types, fair: this.#options.fairQueues() });
  }

  drain(): void {
    this.#isDraining = true;
  }

  get isIdle(): boolean {
    return this.#flights === 0;
  }

  /** A microtask later, so that slots freed in one tick are filled by one statement. */
  pumpSoon(): void {
    if (this.#isScheduled || !this.#isHungry || this.#flights === MAX_FLIGHTS) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (!this.#isHungry || this.#flights >= this.#mostFlights()) return;
    const wanted = this.#wantedAhead();
    if (wanted > 0) this.#pumpAhead(wanted);
    else this.#pumpSlots();
  }

  #pumpSlots(): void {
    const limit = this.#room();
    if (limit === 0 || (this.#flights > 0 && limit < MIN_FOLLOWING)) return;
    this.#launch(limit, { take: this.#options.take, isAhead: false });
  }

  /** Queues that take turns wait for each other's claims, so these stay small. */
  #wantedAhead(): number {
    const { ahead, slots, hasCaps } = this.#options;
    if (hasCaps()) return 0;
    return this.#lanes.takeTurns ? Math.min(slots, ahead.wanted) : ahead.wanted;
  }

  /** Large statements cost less for each job, so the line is filled again when half of it is gone. */
  #pumpAhead(wanted: number): void {
    const inLine = this.#options.ahead.length;
    const limit = this.#room(wanted - inLine);
    if (limit === 0 || inLine + this.#asked > wanted / 2) return;
    this.#launch(limit, { take: this.#options.takeAhead, isAhead: true });
  }

  /** Claims under a cap take turns, so a second one would only wait for the first. */
  #mostFlights(): number {
    return this.#options.hasCaps() ? 1 : MAX_FLIGHTS;
  }

  #launch(limit: number, { take, isAhead }: { take: Take; isAhead: boolean }): Promise<Taken> {
    const { claims, workerId } = this.#options;
    this.#flights++;
    this.#asked += limit;
    const sentMs = performance.now();
    const runs = this.#lanes.runsFor(limit);
    const params = { workerId, limit, claimNo: claims.next(), lanes: this.#lanes.next(sentMs), runs };
    const taking = take(params);
    this.#fly(taking, { ...params, sentMs, isAhead, wakes: this.#wakes }).catch((error) => this.#report(error));
    return taking;
  }

  #room(beyond = 0): number {
    if (this.#isDraining || this.#options.types.length === 0) return 0;
    const room = this.#options.slots - this.#options.busy() - this.#asked + beyond;
    return Math.max(0, Math.min(room, MAX_PER_STATEMENT));
  }

  async #fly(taking: Promise<Taken>, flight: Flight): Promise<void> {
    const { limit, claimNo, sentMs, isAhead } = flight;
    let taken: Taken;
    try {
      taken = await taking;
    } catch (error) {
      return this.#recover(error);
    } finally {
      this.#asked -= limit;
      this.#options.claims.answered(claimNo);
    }
    this.#failures = 0;
    await this.#options.begin(taken.jobs, { claimNo, sentMs, isAhead });
    if (sentMs < this.#suspectUntilMs && this.#flights === 1)
      await this.#options.reconcile().catch((error) => this.#report(error));
    this.#observe(taken, flight);
    this.#flights--;
    // The next statement goes out before these jobs run: the database works while handlers do.
    this.#pump();
    this.#options.fill();
    this.pumpSoon();
  }

  #observe({ jobs, hasMore }: Taken, { limit, sentMs, wakes, runs }: Flight): void {
    const runsTaken = this.#lanes.raise(jobs);
    const wasFull = jobs.length === limit || runsTaken >= runs;
    // The statement may have missed jobs that were submitted while it was in flight. A claim that got some jobs, but fewer than it
    // asked for, has emptied the queue or met another process: look again in a while.
    this.#isHungry = wasFull || this.#wakes !== wakes;
    this.#options.ahead.onClaimed({ hasMore: wasFull || hasMore, nowMs: performance.now() });
    if (hasMore) this.#lookAgain(Math.random() * CONTENDED_MS);
    else if (jobs.length > 0 && !this.#isHungry) this.#lookAgain(SECOND_LOOK_MS);
    if (jobs.length === 0) this.#lanes.reset(sentMs);
  }

  #lookAgain(delayMs: number): void {
    this.#secondLook ??= setTimeout(() => {
      this.#secondLook = null;
      this.wake();
    }, delayMs).unref();
  }

  /** Nobody knows whether the statement took effect; what it gave us unawares is given back once the database answers. */
  async #recover(error: unknown): Promise<void> {
    this.#report(error);
    // A statement that lost its connection may still be running over there, and commit later.
    this.#suspectUntilMs = performance.now() + SUSPICION_MS;
    const delayMs = pauseMs(PAUSES.databaseFailed, this.#failures++, Math.random());
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    this.#flights--;
    this.wake();
  }

  #report(error: unknown): void {
    this.#options.events.emit('error', { error, where: 'producer' });
  }
}
