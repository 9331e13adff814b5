import { Worker as Thread } from 'node:worker_threads';
import { heartbeat } from '../../ledger/attempts/heartbeat.ts';
import { UNREACHABLE_MS, WorkerSession } from '../../ledger/attempts/worker-session.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import { Loop, type Service } from '../loop.ts';
import {
  type HeartbeatThreadData,
  PULSE_INTERVAL,
  PULSE_LAST_BEAT,
  PULSE_MAIN,
  PULSE_SESSION,
  PULSE_STOP,
  PULSE_WORDS,
  pulseSince,
} from './pulse.ts';
import type { Worker } from './worker.ts';

export type HeartbeatOptions = {
  database: Database;
  worker: Worker;
  events: EventHub;
  /** The shortest lease a job may have here; beats come six times as often. */
  leaseMs: number;
  maxIntervalMs?: number;
  /**
   * The worker needs a new name. Either the ledger gave it up, and everything it held is another's; or it was cut off for so long
   * that it gave up all it ran.
   */
  onDead(): void;
};

const MAX_INTERVAL_MS = 5_000;
const BEATS_PER_LEASE = 6;
/** Handlers are stopped when this much of their lease has passed without a beat. */
const SAFE_SHARE = 0.9;
const TICK_MS = 100;
const STALL_MS = 1_000;
const THREAD_RESTART_MS = 1_000;

/**
 * Keeps the leases of one worker alive, and learns which of its jobs were taken away or are to be cancelled. A thread does most of
 * it, and until that has a session of its own another one shows that this process lives.
 */
export class Heartbeat implements Service {
  readonly #options: HeartbeatOptions;
  readonly #shared = new SharedArrayBuffer(PULSE_WORDS * 4);
  readonly #pulse = new Int32Array(this.#shared);
  readonly #check: Loop;
  readonly #firstSession: WorkerSession;
  #isStopping = false;
  #exited: Promise<unknown> = Promise.resolve();
  #ticker: NodeJS.Timeout | null = null;
  #lastBeatMs = performance.now();
  #gaveUp = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#pulse[PULSE_INTERVAL] = intervalFor(options.leaseMs, options.maxIntervalMs);
    this.#firstSession = new WorkerSession({ url: options.database.url, workerId: options.worker.id });
    this.#check = new Loop({
      name: 'heartbeat',
      round: () => this.#round(),
      onError: (error, where) => options.events.emit('error', { error, where }),
    });
  }

  async start(): Promise<void> {
    // A worker that cannot get this session is judged by its beats until the thread has one.
    await this.#firstSession.open().catch((error) => this.#options.events.emit('error', { error, where: 'heartbeat' }));
    this.#startThread();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS);
    this.#check.start();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#ticker !== null) clearInterval(this.#ticker);
    await this.#check.stop();
    Atomics.store(this.#pulse, PULSE_STOP, 1);
    Atomics.notify(this.#pulse, PULSE_STOP);
    await this.#exited;
    await this.#firstSession.close();
  }

  #startThread(): void {
    const data: HeartbeatThreadData = {
      url: this.#options.database.url,
      workerId: this.#options.worker.id,
      shared: this.#shared,
      begun: this.#options.worker.begun.shared,
      stallMs: STALL_MS,
    };
    const file = import.meta.url.endsWith('.ts') ? './heartbeat-thread.ts' : './heartbeat-thread.js';
    const thread = new Thread(new URL(file, import.meta.url), { workerData: data });
    thread.on('error', (error) => this.#options.events.emit('error', { error, where: 'heartbeat thread' }));
    this.#exited = new Promise((resolve) => thread.once('exit', resolve));
    thread.once('exit', () => {
      if (this.#isStopping) return;
      setTimeout(() => this.#isStopping || this.#startThread(), THREAD_RESTART_MS).unref();
    });
    thread.unref();
  }

  /** Somebody asked for a cancellation: look at once. */
  wake(): void {
    this.#check.wake();
  }

  /** A job with a shorter lease than any before came in. */
  shorten(leaseMs: number): void {
    const intervalMs = intervalFor(leaseMs, this.#options.maxIntervalMs);
    if (intervalMs >= (this.#pulse[PULSE_INTERVAL] as number)) return;
    Atomics.store(this.#pulse, PULSE_INTERVAL, intervalMs);
    Atomics.notify(this.#pulse, PULSE_STOP); // The thread waits here for its next beat.
    this.#check.wake();
  }

  async #round(): Promise<number> {
    const { database, worker } = this.#options;
    const jobs = worker.leases();
    const sentMs = performance.now();
    const beatMs = this.#pulse[PULSE_INTERVAL] as number;
    const answer = await heartbeat(database.workers, { workerId: worker.id, jobs, beatMs });
    if (!answer.alive) {
      worker.abandon();
      this.#options.onDead();
      return MAX_INTERVAL_MS;
    }
    this.#lastBeatMs = Math.max(this.#lastBeatMs, sentMs);
    if (this.#gaveUp && worker.running.size === 0) {
      // What it fetched ahead may be another's as well. It begins anew rather than sort that out.
      this.#options.onDead();
      return MAX_INTERVAL_MS;
    }
    this.#gaveUp = false;
    worker.lose(answer.lost);
    for (const { leaseSeq, force } of answer.cancels) worker.cancel(leaseSeq, force);
    return Math.min(beatMs, 1_000);
  }

  /** Tells the thread that we live, and stops handlers whose lease may end before a beat gets through. */
  #tick(): void {
    Atomics.add(this.#pulse, PULSE_MAIN, 1);
    if (Atomics.load(this.#pulse, PULSE_SESSION) === 1) void this.#firstSession.close();
    const silentMs = this.#silenceMs();
    for (const { job, policy } of this.#options.worker.running.values()) {
      if (silentMs <= Math.min(policy.leaseMs, UNREACHABLE_MS) * SAFE_SHARE) continue;
      this.#gaveUp = true;
      this.#options.worker.giveUp(job.leaseSeq);
    }
  }

  #silenceMs(): number {
    const own = performance.now() - this.#lastBeatMs;
    const stamp = Atomics.load(this.#pulse, PULSE_LAST_BEAT);
    return stamp === 0 ? own : Math.min(own, pulseSince(stamp));
  }
}

export function intervalFor(leaseMs: number, maxMs = MAX_INTERVAL_MS): number {
  return Math.max(50, Math.min(maxMs, Math.floor(leaseMs / BEATS_PER_LEASE)));
}
