/** The life of jobs as plain objects: each method does to the model what one operation of the ledger must do, and answers alike. */
import type { Policy } from '../../src/core/policy.ts';
import type { JobState } from '../../src/core/states.ts';
import type { Reason } from '../../src/core/transitions.ts';
import {
  type Ending,
  type Entry,
  type GivenLease,
  type Grant,
  hasEnded,
  isHeldBy,
  type LateEnd,
  type ModelJob,
  mayRun,
  mayRunBy,
  runsBy,
  type Submitted,
  verdictOf,
} from './model-job.ts';

export type { Ending, LateEnd, Submitted } from './model-job.ts';

type Key = { jobId: string; fingerprint: string | null; untilMs: number };

/** What becomes of an attempt whose job somebody asked to cancel, where it would have been tried again. */
const STOPPED = { to: 'cancelled', reason: 'cancelled', delayMs: null } as const;

export class Model {
  nowMs: number;
  readonly jobs: ModelJob[] = [];
  readonly workers = new Map<number, { beatAtMs: number; isStopped: boolean }>();
  readonly leases: GivenLease[] = [];
  /** Places in the line for workers. A cancelled job takes its place with it. */
  readonly line = new Set<ModelJob>();
  /** Jobs that wait for a grant of their limit before they get a place in the line. */
  readonly limited = new Set<ModelJob>();
  readonly grants = new Set<Grant>();
  /** By type and unique key, the newest job that was submitted with it. */
  readonly marks = new Map<string, ModelJob>();
  /** Ended or held since the releaser last looked. */
  readonly news = new Set<ModelJob>();
  readonly #keys = new Map<string, Key>();

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  submit(submitted: Submitted): { kind: 'accepted' } | { kind: 'duplicate'; existingId: string; sameRequest: boolean } {
    const { id, type, policy, key, fingerprint, dependsOn } = submitted;
    const taken = key === null ? undefined : this.#keys.get(`${type} ${key}`);
    if (taken !== undefined && taken.untilMs > this.nowMs) {
      return { kind: 'duplicate', existingId: taken.jobId, sameRequest: taken.fingerprint === fingerprint };
    }
    if (key !== null) {
      this.#keys.set(`${type} ${key}`, { jobId: id, fingerprint, untilMs: this.nowMs + policy.keyWindowMs });
    }
    const job = this.#born(submitted);
    this.jobs.push(job);
    for (const each of dependsOn) if (hasEnded(each)) this.news.add(each);
    if (verdictOf(job).kind === 'proceed') this.#queue(job, 'submitted');
    else this.#note(job, { from: null, to: 'pending', reason: 'submitted' });
    return { kind: 'accepted' };
  }

  #born({ policy, priority, delayMs, dependsOn, key: _, fingerprint: __, ...same }: Submitted): ModelJob {
    return {
      ...same,
      order: this.jobs.length,
      policy,
      priority: Math.min(priority, ...dependsOn.map((each) => each.priority)),
      state: 'pending',
      attempts: 0,
      maxAttempts: policy.maxAttempts,
      round: 0,
      leaseSeq: 0,
      holder: null,
      claimedAtMs: null,
      startedAtMs: null,
      held: false,
      runAtMs: this.nowMs + delayMs,
      deadlineMs: this.#deadline(policy),
      dependsOn,
      cancel: null,
      percent: null,
      checkpoint: null,
      history: [],
    };
  }

  /** Takes the first places of the line; a place that a job no longer needs is taken in vain. */
  takeFromLine(types: readonly string[], limit: number): ModelJob[] {
    const places = [...this.line].filter((job) => types.includes(job.type));
    const taken = places.toSorted((a, b) => a.priority - b.priority || a.order - b.order).slice(0, limit);
    for (const job of taken) this.line.delete(job);
    return taken.filter((job) => job.state === 'scheduled');
  }

  /** Leased ahead, a first attempt of several may run before its start is written. */
  give(lease: GivenLease, how: 'apart' | 'ahead' = 'apart'): void {
    const { job } = lease;
    this.leases.push(lease);
    job.leaseSeq = lease.leaseSeq;
    job.holder = lease.workerId;
    job.claimedAtMs = how === 'ahead' && job.attempts === 0 && job.maxAttempts > 1 ? null : this.nowMs;
  }

  start(lease: GivenLease, ranMs = 0): boolean {
    const { job, workerId } = lease;
    if (!isHeldBy(lease) || job.state !== 'scheduled') return false;
    job.startedAtMs = Math.max(this.nowMs - ranMs, job.claimedAtMs ?? 0, readySinceMs(job));
    job.attempts++;
    this.#move(job, 'running', 'started', { workerId, atMs: job.startedAtMs });
    return true;
  }

  /** Start and completion at once, for each that may run. The starts of one type and priority share the latest of their times. */
  completeLate(ends: readonly LateEnd[]): GivenLease[] {
    const landed = ends.filter(({ lease }) => mayRunBy(lease));
    for (const { lease, agoMs } of landed) lease.job.startedAtMs = Math.max(this.nowMs - agoMs, readySinceMs(lease.job));
    const groups = Map.groupBy(landed, ({ lease: { job } }) => `${job.type} ${job.priority}`);
    for (const group of groups.values()) {
      const atMs = Math.max(...group.map(({ lease }) => lease.job.startedAtMs ?? 0));
      for (const { lease } of group) {
        const { job, workerId } = lease;
        job.attempts++;
        this.#move(job, 'running', 'started', { workerId, atMs });
        this.#move(job, 'completed', 'succeeded', { workerId });
        job.cancel = null;
      }
    }
    return landed.map(({ lease }) => lease);
  }

  /** The rescuer's start of an attempt that a dead worker may have begun. */
  presume(lease: GivenLease): boolean {
    const { job, workerId } = lease;
    if (!mayRunBy(lease) || !this.isSilent(job)) return false;
    job.startedAtMs = Math.max(this.nowMs, readySinceMs(job));
    job.attempts++;
    this.#move(job, 'running', 'started', { workerId, presumed: true });
    return true;
  }

  settle(lease: GivenLease, ending: Ending, by: 'lease' | 'dead_worker' = 'lease'): boolean {
    const { job } = lease;
    if (!runsBy(lease) || (by === 'dead_worker' && !this.isSilent(job))) return false;
    const { to, reason, delayMs } = ending.to === 'retrying' && job.cancel !== null ? STOPPED : ending;
    job.cancel = null;
    if (ending.refunds) job.maxAttempts = Math.min(100, job.maxAttempts + 1);
    if (ending.holds && to === 'completed' && this.#hasLiveChildren(job)) {
      job.held = true;
      job.holder = null;
      this.news.add(job);
      return true;
    }
    this.#move(job, to, reason, { workerId: by === 'lease' ? lease.workerId : null });
    if (to !== 'retrying') return true;
    job.runAtMs = this.nowMs + Math.ceil(delayMs ?? 0);
    if (job.runAtMs > this.nowMs) return true;
    this.#move(job, 'scheduled', reason === 'released' || reason === 'worker_lost' ? reason : 'backoff_elapsed');
    return true;
  }

  /** A job that somebody asked to cancel, because it might have run, is not given to another worker. */
  giveBack(lease: GivenLease, by: 'lease' | 'dead_worker' = 'lease'): 'returned' | 'cancelled' | 'lost' {
    const { job } = lease;
    if (!isHeldBy(lease) || job.state !== 'scheduled') return 'lost';
    if (by === 'dead_worker' && !this.isSilent(job)) return 'lost';
    if (job.cancel !== null) {
      job.cancel = null;
      this.#move(job, 'cancelled', 'cancelled');
      return 'cancelled';
    }
    job.holder = null;
    this.#lineUp(job);
    return 'returned';
  }

  /** Whether the worker that holds the job has been silent for longer than the job's lease lasts. */
  isSilent({ holder, policy }: ModelJob): boolean {
    const worker = holder === null ? undefined : this.workers.get(holder);
    return worker === undefined || worker.isStopped || worker.beatAtMs + policy.leaseMs < this.nowMs;
  }

  beat(workerId: number): boolean {
    const worker = this.workers.get(workerId);
    if (worker === undefined || worker.isStopped) return false;
    worker.beatAtMs = this.nowMs;
    return true;
  }

  cancel(job: ModelJob, force: boolean): 'cancelled' | 'requested' | 'already_final' {
    if (hasEnded(job)) return 'already_final';
    if ((job.state === 'running' && !job.held) || mayRun(job)) {
      job.cancel = force || job.cancel === 'force' ? 'force' : 'soft';
      return 'requested';
    }
    this.#leave(job, 'cancelled');
    return 'cancelled';
  }

  /** A newer job takes the place of one that waits to start. */
  replace(job: ModelJob): void {
    this.#leave(job, 'replaced');
  }

  #leave(job: ModelJob, reason: 'cancelled' | 'replaced'): void {
    this.#move(job, 'cancelled', reason);
    this.line.delete(job);
    this.limited.delete(job);
  }

  retry(job: ModelJob, params: { resets: boolean; delayMs: number; priority: number | null }): boolean {
    if (job.state !== 'failed' && job.state !== 'dead_letter') return false;
    if (!params.resets && job.attempts >= 100) return false;
    if (params.resets) job.attempts = 0;
    if (params.resets) job.round++;
    if (params.resets) job.startedAtMs = null;
    job.maxAttempts = Math.max(job.maxAttempts, job.attempts + 1);
    job.priority = params.priority ?? job.priority;
    job.runAtMs = this.nowMs + params.delayMs;
    job.deadlineMs = this.#deadline(job.policy);
    this.#queue(job, 'manual_retry');
    return true;
  }

  stage(): number {
    const due = this.jobs.filter((job) => (job.state === 'delayed' || job.state === 'retrying') && job.runAtMs <= this.nowMs);
    for (const job of due) this.#move(job, 'scheduled', job.state === 'delayed' ? 'delay_elapsed' : 'backoff_elapsed');
    return due.length;
  }

  /** Ends what waits beyond its lifetime. A job under lease is its worker's or the rescuer's to end. */
  expire(): number {
    const isLate = ({ deadlineMs }: ModelJob) => deadlineMs !== null && deadlineMs < this.nowMs;
    const late = this.jobs.filter((job) => !hasEnded(job) && job.holder === null && isLate(job));
    for (const job of [...this.line]) if (isLate(job)) this.line.delete(job);
    for (const job of [...this.limited]) if (isLate(job)) this.limited.delete(job);
    for (const job of late) this.#move(job, 'dead_letter', 'lifetime_exceeded');
    return late.length;
  }

  /** One level of whatever waited for the jobs in the news, all judged before any is moved. */
  release(): void {
    const news = [...this.news];
    this.news.clear();
    const waits = (job: ModelJob) => job.state === 'pending' && job.dependsOn.some((each) => news.includes(each));
    const isAwaited = (job: ModelJob) => job.held && (news.includes(job) || news.some((child) => child.parent === job));
    const dependents = this.jobs.filter(waits).map((job) => ({ job, verdict: verdictOf(job) }));
    const parents = this.jobs.filter((job) => isAwaited(job) && !this.#hasLiveChildren(job));
    for (const job of parents) this.#move(job, 'completed', 'succeeded');
    for (const { job, verdict } of dependents) {
      if (verdict.kind === 'proceed') this.#queue(job, 'dependencies_met');
      if (verdict.kind === 'end') this.#move(job, verdict.to, verdict.reason);
    }
  }

  /** To work, or to the wait for its time. */
  #queue(job: ModelJob, reason: Reason): void {
    this.#move(job, job.runAtMs > this.nowMs ? 'delayed' : 'scheduled', reason);
  }

  #lineUp(job: ModelJob): void {
    (job.limit === null ? this.line : this.limited).add(job);
  }

  #hasLiveChildren(job: ModelJob): boolean {
    return this.jobs.some((child) => child.parent === job && !hasEnded(child));
  }

  #deadline({ lifetimeMs }: Policy): number | null {
    return lifetimeMs === null ? null : this.nowMs + lifetimeMs;
  }

  #move(job: ModelJob, to: JobState, reason: Reason, more: Partial<Entry> = {}): void {
    this.#note(job, { from: job.state, to, reason, ...more });
    job.state = to;
    job.held = false;
    if (to !== 'running') job.holder = null;
    if (to === 'scheduled') this.#lineUp(job);
    if (hasEnded(job)) this.news.add(job);
  }

  #note({ leaseSeq, attempts, round, history }: ModelJob, entry: Pick<Entry, 'from' | 'to' | 'reason'> & Partial<Entry>): void {
    const now = { leaseSeq, attempt: attempts, round, atMs: this.nowMs };
    history.push({ workerId: null, presumed: false, ...now, ...entry });
  }
}

/** When the job was last made ready. */
const readySinceMs = ({ history }: ModelJob): number => history.findLast(({ to }) => to === 'scheduled')?.atMs ?? 0;
