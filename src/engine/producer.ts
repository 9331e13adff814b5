import {
  type Advanced,
  type AdvanceParams,
  advanceCappedJobs,
  advanceJobs,
  type StartedJob,
} from '../ledger/advance-jobs.ts';
import { lockRoom } from '../ledger/claim-room.ts';
import { type Database, inTransaction } from '../ledger/database.ts';
import type { Claims } from './claims.ts';
import type { Completer } from './completer.ts';
import type { EventHub } from './events.ts';
import type { Execution } from './execution.ts';
import { Lanes } from './lanes.ts';
import { Lookahead } from './lookahead.ts';

export type ProducerOptions = {
  database: Database;
  workerId: number;
  claims: Claims;
  completer: Completer;
  events: EventHub;
  slots: number;
  queues: readonly string[];
  types: readonly string[];
  lookahead: boolean;
  /** Whether any served type or any org has a cap, so that claims must count first. */
  hasCaps(): boolean;
  /** Jobs this worker runs or is about to run. */
  load(): { running: number; waiting: number };
  begin(started: readonly StartedJob[], claim: { claimNo: number; sentMs: number }): Promise<void>;
  /** Run what begin() brought. */
  fill(): void;
  /** A statement failed a while ago: what the ledger gave us may be more than we know. */
  reconcile(): Promise<void>;
  onReleased(): void;
};

export type Finished = { execution: Execution; result: string; output: unknown };

const MAX_PER_STATEMENT = 500;
const MAX_ERROR_DELAY_MS = 2_000;
const SECOND_LOOK_MS = 100;
/** On one connection: the database turns to the second as soon as it is done with the first. */
const MAX_FLIGHTS = 2;
/** What a statement must carry to go out while another is under way. */
const MIN_FOLLOWING = 32;
/** Longer than any statement may take. */
const SUSPICION_MS = 15_000;

/**
 * Claims work and completes it. Each statement carries what finished since the last one and asks for as many jobs as there is
 * room for; under load a second follows the first on the wire.
 */
export class Producer {
  readonly #options: ProducerOptions;
  readonly #lanes = new Lanes();
  readonly #lookahead: Lookahead;
  #finished: Finished[] = [];
  #flights = 0;
  /** Jobs asked for by statements under way. */
  #asked = 0;
  #isHungry = true;
  #wakes = 0;
  #isDraining = false;
  #isScheduled = false;
  #failures = 0;
  #suspectUntilMs = 0;

  constructor(options: ProducerOptions) {
    this.#options = options;
    this.#lookahead = new Lookahead(options.lookahead ? options.slots : 0);
    this.#lanes.set(options.queues, options.types);
  }

  /** There may be work: look now. */
  wake(): void {
    this.#isHungry = true;
    this.#wakes++;
    this.pumpSoon();
  }

  serve(queues: readonly string[]): void {
    this.#lanes.set(queues, this.#options.types);
    this.wake();
  }

  drain(): void {
    this.#isDraining = true;
  }

  get isIdle(): boolean {
    return this.#flights === 0 && this.#finished.length === 0;
  }

  finish(finished: Finished): void {
    this.#finished.push(finished);
    this.pumpSoon();
  }

  /** A microtask later, so that handlers ending in one tick share a statement. */
  pumpSoon(): void {
    if (this.#isScheduled || this.#flights === MAX_FLIGHTS) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#flights === MAX_FLIGHTS) return;
    const room = this.#isHungry || this.#finished.length > 0 ? this.#room() : 0;
    const load = this.#finished.length + room;
    if (load === 0 || (this.#flights > 0 && load < MIN_FOLLOWING)) return;
    const finished = this.#finished.splice(0, MAX_PER_STATEMENT);
    this.#flights++;
    this.#asked += room;
    this.#fly(finished, room).catch((error) => this.#report(error));
  }

  #room(): number {
    if (this.#isDraining || this.#options.types.length === 0) return 0;
    const { running, waiting } = this.#options.load();
    const room = this.#options.slots + this.#lookahead.jobs - running - waiting - this.#asked;
    return Math.max(0, Math.min(room, MAX_PER_STATEMENT));
  }

  async #fly(finished: Finished[], limit: number): Promise<void> {
    const { claims } = this.#options;
    const claimNo = claims.next();
    const closedClaims = claims.takeClosed();
    const sentMs = performance.now();
    const wakes = this.#wakes;
    let advanced: Advanced;
    try {
      advanced = await this.#advance({
        workerId: this.#options.workerId,
        finished: finished.map(({ execution: { job }, result }) => ({
          orgId: job.orgId,
          seq: job.seq,
          leaseSeq: job.leaseSeq,
          result,
        })),
        lanes: limit === 0 ? [] : this.#lanes.next(sentMs),
        limit,
        claimNo,
        closedClaims,
      });
    } catch (error) {
      claims.reopen(closedClaims);
      return this.#recover(error, finished);
    } finally {
      this.#asked -= limit;
    }
    this.#failures = 0;
    await this.#options.begin(advanced.started, { claimNo, sentMs });
    if (sentMs < this.#suspectUntilMs && this.#flights === 1)
      await this.#options.reconcile().catch((error) => this.#report(error));
    this.#observe(advanced, {
      limit,
      sentMs,
      wasWoken: this.#wakes !== wakes || (finished.length > 0 && this.#options.hasCaps()),
    });
    this.#flights--;
    // The next statement goes out before these jobs run: the database works while handlers do.
    this.#pump();
    this.#options.fill();
    await this.#confirm(finished, advanced);
    this.pumpSoon();
  }

  #advance(params: AdvanceParams): Promise<Advanced> {
    const { database, hasCaps, types } = this.#options;
    if (params.limit === 0 || !hasCaps()) return advanceJobs(database.claiming, params);
    return inTransaction(database.workers, async (client) => {
      const room = await lockRoom(client, [...types]);
      return advanceCappedJobs(client, params, room);
    });
  }

  #observe(advanced: Advanced, flight: { limit: number; sentMs: number; wasWoken: boolean }): void {
    const { limit, sentMs } = flight;
    if (advanced.released) this.#options.onReleased();
    if (limit === 0) return;
    const { started } = advanced;
    const { running, waiting } = this.#options.load();
    this.#lanes.raise(started);
    this.#lookahead.observe({
      wasFull: started.length === limit,
      idleSlots: this.#options.slots - running,
      waiting: waiting - started.length,
    });
    // What was submitted while the statement was under way it may not have seen. A claim that got some, but fewer than it
    // asked for, has emptied the queue or met another process; the next finish asks again, and so does this in a while.
    this.#isHungry = started.length === limit || flight.wasWoken;
    if (started.length > 0 && !this.#isHungry) setTimeout(() => this.wake(), SECOND_LOOK_MS).unref();
    if (started.length === 0) this.#lanes.reset(sentMs);
  }

  async #confirm(finished: readonly Finished[], { landed }: Advanced): Promise<void> {
    const missing: Finished[] = [];
    for (const each of finished) {
      if (landed.has(each.execution.job.leaseSeq)) this.#options.completer.completed(each.execution, each.output);
      else missing.push(each);
    }
    if (missing.length === 0) return;
    const before = await this.#options.completer.landedBefore(missing.map((each) => each.execution));
    for (const each of missing) {
      if (before.has(each.execution.job.leaseSeq)) this.#options.completer.completed(each.execution, each.output);
      else this.#options.completer.lost(each.execution);
    }
  }

  /** Nobody knows whether the statement took effect: send the finishes again; a second landing changes nothing. */
  async #recover(error: unknown, finished: Finished[]): Promise<void> {
    this.#report(error);
    this.#finished.unshift(...finished);
    // A statement that lost its connection may still be running over there, and commit later.
    this.#suspectUntilMs = performance.now() + SUSPICION_MS;
    const delayMs = Math.random() * Math.min(MAX_ERROR_DELAY_MS, 50 * 2 ** Math.min(this.#failures++, 8));
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    this.#flights--;
    this.#isHungry = true;
    this.pumpSoon();
  }

  #report(error: unknown): void {
    this.#options.events.emit('error', { error, where: 'producer' });
  }
}
