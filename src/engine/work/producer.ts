import { PAUSES, pauseMs } from '../../core/backoff.ts';
import type { Claimed, StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import type { ClaimStatement, ClaimStatements } from './claim-statements.ts';
import { GovernedLooks } from './governed-looks.ts';
import { OrgTurns } from './org-turns.ts';
import type { Order, ProducerOptions, SentClaim, ServedJob, Wake } from './producer-options.ts';
import { firstsOfRuns, ReadyRanges, type Which } from './ready-ranges.ts';

/** What a claim asks for, in addition to the number of jobs. */
type Ask = { claim: ClaimStatements; isAhead: boolean; order?: Order; which?: Which };

const MAX_PER_STATEMENT = 500;
const SECOND_LOOK_MS = 100;
/** Another process locked the first jobs in claim order, which takes as long as a statement. */
const CONTENDED_MS = 10;
/** Both use one connection: the database starts on the second as soon as it has finished the first. */
const MAX_IN_FLIGHT = 2;
/** A statement must ask for this many jobs to be sent while another is in flight. */
const MIN_FOLLOWING = 32;
/** Longer than any statement may take. */
const RECONCILE_MS = 15_000;

/** Claims jobs for the free slots of a worker, and leases short ones ahead. It claims until no job is left, and again when woken. */
export class Producer {
  readonly #options: ProducerOptions;
  readonly #ranges = new ReadyRanges();
  readonly #turns = new OrgTurns();
  readonly #looks = new GovernedLooks(() => this.wake());
  #inFlight = 0;
  /** Jobs that the statements in flight ask for. */
  #requested = 0;
  #mayFindJobs = true;
  /** What `#changes` was when no newcomer was found. */
  #noNewcomersAt = -1;
  #wakes = 0;
  #isDraining = false;
  #isScheduled = false;
  #failures = 0;
  #reconcileUntilMs = 0;
  #secondLook: NodeJS.Timeout | null = null;

  constructor(options: ProducerOptions) {
    this.#options = options;
    this.#setRanges(options.queues);
  }

  /** There may be work: claim now. */
  wake({ isForOld = false }: Wake = {}): void {
    if (isForOld) this.#ranges.reset(performance.now());
    this.#mayFindJobs = true;
    this.#wakes++;
    this.pumpSoon();
  }

  /** Whether this producer claims jobs of that queue and type. */
  serves({ queue, type }: ServedJob): boolean {
    return this.#ranges.has(queue, type);
  }

  /**
   * Claims with a statement of the submitter, which writes a job and starts it, or follows the write on the same connection. Returns null,
   * without sending the statement, if the producer is not idle.
   */
  claimWith(claim: ClaimStatement): Promise<Claimed> | null {
    if (this.#inFlight > 0 || this.#options.hasCaps()) return null;
    const limit = this.#room();
    return limit === 0 ? null : this.#send(limit, { send: claim, order: 'line', isAhead: false });
  }

  serve(queues: readonly string[]): void {
    this.#setRanges(queues);
    this.wake();
  }

  #setRanges(queues: readonly string[]): void {
    const { types, fairQueues, governedQueues } = this.#options;
    const governed = governedQueues();
    this.#ranges.set({ queues, types, fair: fairQueues(), governed });
    this.#looks.set(queues, governed);
  }

  /** A job of the queue has ended. */
  ended(queue: string): void {
    if (this.#looks.ended(queue)) this.wake();
  }

  /** How many free slots jobs leased ahead should leave for the next claim. */
  get slotsForLook(): number {
    return this.#looks.isDue(performance.now()) && !this.#isDraining ? 1 : 0;
  }

  drain(): void {
    this.#isDraining = true;
  }

  get isIdle(): boolean {
    return this.#inFlight === 0;
  }

  /** Waits for the end of this turn of the event loop, so that one statement fills all slots that become free in it. */
  pumpSoon(): void {
    const mayFind = this.#mayFindJobs || this.#mayFindNewcomers() || this.#options.queueReserve.toFill(this.#wakes) !== null;
    if (this.#isScheduled || !mayFind || this.#inFlight === MAX_IN_FLIGHT) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#inFlight >= this.#maxInFlight()) return;
    const wanted = this.#mayFindJobs ? this.#wantedAhead() : 0;
    if (wanted > 0 && (this.slotsForLook === 0 || this.#room() === 0)) this.#leaseAhead(wanted);
    else this.#fillSlots();
  }

  #fillSlots(): void {
    const limit = this.#mayFindJobs ? this.#room() : 0;
    if (limit === 0) {
      this.#fillReserve();
      this.#fillQueueReserve();
    } else if (this.#inFlight === 0 || limit >= MIN_FOLLOWING) this.#claim(limit, { claim: this.#options.claim, isAhead: false });
  }

  /** A second claim in flight could give the same newcomer another slot. */
  #fillReserve(): void {
    if (!this.#mayFindNewcomers() || this.#inFlight > 0) return;
    const limit = Math.min(this.#options.reservedSlots(), this.#room({ reserved: this.#options.queueReserve.keptFrom(null) }));
    if (limit > 0) this.#claim(limit, { claim: this.#options.claim, isAhead: false, order: 'newcomers' });
  }

  #fillQueueReserve(): void {
    const { claim, queueReserve, reservedSlots } = this.#options;
    const queue = queueReserve.toFill(this.#wakes);
    if (queue === null || this.#inFlight > 0) return;
    const limit = Math.min(queueReserve.leftOf(queue), this.#room({ reserved: reservedSlots() + queueReserve.keptFrom(queue) }));
    if (limit > 0) this.#claim(limit, { claim, isAhead: false, order: 'turns', which: { queue } });
  }

  /** New jobs may have come, or an org whose last job has ended is a newcomer again. */
  get #changes(): number {
    return this.#wakes + this.#options.claims.orgsLeft;
  }

  #mayFindNewcomers(): boolean {
    return this.#changes !== this.#noNewcomersAt && this.#options.reservedSlots() > 0;
  }

  /** Queues that take turns wait for each other's claims, so their claims stay small. */
  #wantedAhead(): number {
    const { leasedAhead, slots, hasCaps } = this.#options;
    if (hasCaps()) return 0;
    return this.#ranges.takeTurns ? Math.min(slots, leasedAhead.wanted) : leasedAhead.wanted;
  }

  /** Large statements cost less for each job, so it leases more only when half of the jobs leased ahead have run. */
  #leaseAhead(wanted: number): void {
    const waiting = this.#options.leasedAhead.length;
    const limit = this.#room({ beyond: wanted - waiting });
    if (limit === 0 || waiting + this.#requested > wanted / 2) return;
    this.#claim(limit, { claim: this.#options.leaseAhead, isAhead: true });
  }

  /** Half of an equal share of the slots. An org with fewer jobs may take reserved slots, at least for its first job. */
  #smallShare(): number {
    const { slots, claims } = this.#options;
    return Math.max(1, Math.floor(slots / (2 * (claims.owned.size + 1))));
  }

  /** A claim under a cap holds a lock, so a second one would only wait for the first. */
  #maxInFlight(): number {
    return this.#options.hasCaps() ? 1 : MAX_IN_FLIGHT;
  }

  #claim(limit: number, { claim, isAhead, order = this.#nextOrder(), which }: Ask): void {
    const { owned } = this.#options.claims;
    const { cursors, lastTurns } = this.#turns;
    const fewerThan = order === 'newcomers' ? this.#smallShare() : undefined;
    const turns = { cursors, lastTurns, owned, fewerThan };
    const inTurn: ClaimStatement = (params) => claim.inTurn({ ...params, ...turns });
    const { withinQueues } = claim;
    if (withinQueues !== undefined && this.#looks.begins(performance.now(), { isUnderCaps: this.#options.hasCaps() })) {
      const governed = this.#looks.among(which);
      const within: ClaimStatement = (params) => withinQueues({ ...params, ...turns, governed });
      this.#send(limit, {
        send: governed.size === 0 ? inTurn : within,
        order: order === 'line' ? 'turns' : order,
        isAhead,
        which: which ?? 'all',
      });
    } else this.#send(limit, { send: order === 'line' ? claim.inLine : inTurn, order, isAhead, which });
  }

  #nextOrder(): Order {
    return this.#options.hasCaps() || this.#turns.isDue(performance.now()) ? 'turns' : 'line';
  }

  #send(limit: number, { send, order, isAhead, which }: Omit<Ask, 'claim'> & { send: ClaimStatement; order: Order }): Promise<Claimed> {
    const { claims, workerId } = this.#options;
    this.#inFlight++;
    this.#requested += limit;
    const sentMs = performance.now();
    const runs = this.#ranges.runsFor(limit);
    const params = { workerId, limit, claimNo: claims.next(), ranges: this.#ranges.next(sentMs, which), runs };
    const claiming = send(params);
    this.#receive(claiming, { ...params, sentMs, isAhead, order, which, wakes: this.#wakes, changes: this.#changes }).catch((error) =>
      this.#report(error),
    );
    return claiming;
  }

  #room({ beyond = 0, reserved = this.#options.reservedSlots() + this.#options.queueReserve.keptFrom(null) } = {}): number {
    if (this.#isDraining || this.#options.types.length === 0) return 0;
    const room = this.#options.slots - reserved - this.#options.busySlots() - this.#requested + beyond;
    return Math.max(0, Math.min(room, MAX_PER_STATEMENT));
  }

  async #receive(claiming: Promise<Claimed>, sent: SentClaim): Promise<void> {
    const { limit, claimNo, sentMs, isAhead } = sent;
    let claimed: Claimed;
    try {
      claimed = await claiming;
    } catch (error) {
      return this.#recover(error);
    } finally {
      this.#requested -= limit;
      this.#options.claims.answered(claimNo);
    }
    this.#failures = 0;
    await this.#options.onClaimed(claimed.jobs, { claimNo, sentMs, isAhead });
    if (sentMs < this.#reconcileUntilMs && this.#inFlight === 1) await this.#options.reconcile().catch((error) => this.#report(error));
    this.#observe(claimed, sent);
    this.#inFlight--;
    // The next statement is sent before these jobs run, so that the database works while handlers do.
    this.#pump();
    this.#options.runClaimed();
    this.pumpSoon();
  }

  #observe(claimed: Claimed, sent: SentClaim): void {
    const { jobs, hasMore } = claimed;
    const nowMs = performance.now();
    this.#looks.observe({ ...claimed, limit: sent.limit, nowMs });
    if (typeof sent.which === 'object') {
      if (jobs.length === 0) this.#options.queueReserve.foundNone(sent.wakes, sent.which.queue);
    } else if (sent.order === 'newcomers') {
      if (jobs.length === 0) this.#noNewcomersAt = sent.changes;
      else this.#turns.onNewcomers();
    } else {
      const wasFull = sent.order === 'line' ? this.#observeLine(jobs, sent) : this.#observeTurns(claimed, sent, nowMs);
      // The statement may have missed jobs that were submitted while it was in flight. A claim that returned fewer jobs than it asked for
      // emptied the queue or met another process, so the next look can wait.
      this.#mayFindJobs = wasFull || this.#wakes !== sent.wakes;
      if (!wasFull) this.#options.queueReserve.foundNone(sent.wakes);
      this.#options.leasedAhead.onClaimed({ hasMore: wasFull || hasMore, nowMs });
      if (jobs.length === 0) this.#ranges.reset(sent.sentMs);
    }
    if (hasMore) this.#lookAgain(Math.random() * CONTENDED_MS);
    else if (jobs.length > 0 && !this.#mayFindJobs) this.#lookAgain(SECOND_LOOK_MS);
  }

  #observeLine(jobs: readonly StartedJob[], { limit, runs }: SentClaim): boolean {
    const runsClaimed = this.#ranges.raise(jobs);
    const wasFull = jobs.length === limit || runsClaimed >= runs;
    this.#turns.onLine({ jobs, hasMore: wasFull });
    return wasFull;
  }

  /** If several orgs wait, a claim takes a bounded number of jobs of each. So it may return few although more are waiting. */
  #observeTurns({ jobs, orgs = 0, foundMs = 0 }: Claimed, { limit, runs }: SentClaim, nowMs: number): boolean {
    this.#ranges.moveTurns(jobs);
    this.#turns.onTurns({ jobs, orgs, foundMs, nowMs });
    return jobs.length === limit || (jobs.length > 0 && (orgs > 1 || firstsOfRuns(jobs).length >= runs));
  }

  #lookAgain(delayMs: number): void {
    this.#secondLook ??= setTimeout(() => {
      this.#secondLook = null;
      this.wake();
    }, delayMs).unref();
  }

  /** The statement may have taken effect. Once the database responds, `reconcile` returns the jobs that it claimed. */
  async #recover(error: unknown): Promise<void> {
    this.#report(error);
    // A statement that lost its connection may still run in the database and commit later.
    this.#reconcileUntilMs = performance.now() + RECONCILE_MS;
    const delayMs = pauseMs(PAUSES.databaseFailed, this.#failures++, Math.random());
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    this.#inFlight--;
    this.wake();
  }

  #report(error: unknown): void {
    this.#options.events.emit('error', { error, where: 'producer' });
  }
}
