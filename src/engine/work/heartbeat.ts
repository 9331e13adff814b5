import { url as inspectorUrl } from 'node:inspector';
import { isMainThread, Worker as Thread } from 'node:worker_threads';
import { heartbeat } from '../../ledger/attempts/heartbeat.ts';
import { UNREACHABLE_MS, WorkerSession } from '../../ledger/attempts/worker-session.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import { Loop, type Service } from '../loop.ts';
import { type HeartbeatThreadData, processMemory, sharedClockMs, sinceMs, WORD, WORDS_BYTES, withdrawGiveUp } from './thread-memory.ts';
import type { Worker } from './worker.ts';

export type HeartbeatOptions = {
  database: Database;
  worker: Worker;
  events: EventHub;
  /** The shortest lease of any job here. Six beats are sent within it. */
  leaseMs: number;
  maxIntervalMs?: number;
  /** Whether to end the process when its event loop stays blocked past the timeout of a handler. */
  exitWhenBlocked: boolean;
  /**
   * The worker must register again. Either the ledger declared it dead, and other workers have its jobs, or it was cut
   * off for so long that it returned all of them.
   */
  onDead(): void;
};

const MAX_INTERVAL_MS = 5_000;
const BEATS_PER_LEASE = 6;
/** Handlers are stopped when this share of their lease has passed without a beat. */
const SAFE_SHARE = 0.9;
const TICK_MS = 100;
const THREAD_RESTART_MS = 1_000;

/**
 * Keeps the leases of one worker valid, and learns which of its jobs were lost or are to be cancelled. A thread sends
 * most beats. Until that thread has a session, another session shows that this process lives.
 */
export class Heartbeat implements Service {
  readonly #options: HeartbeatOptions;
  readonly #shared = new SharedArrayBuffer(WORDS_BYTES);
  readonly #words = new Int32Array(this.#shared);
  readonly #check: Loop;
  readonly #firstSession: WorkerSession;
  #isStopping = false;
  #exited: Promise<unknown> = Promise.resolve();
  #ticker: NodeJS.Timeout | null = null;
  #lastBeatMs = performance.now();
  #hasReturnedJobs = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#words[WORD.intervalMs] = intervalFor(options.leaseMs, options.maxIntervalMs);
    this.#firstSession = new WorkerSession({ url: options.database.url, workerId: options.worker.id });
    this.#check = new Loop({
      name: 'heartbeat',
      round: () => this.#round(),
      events: options.events,
    });
  }

  async start(): Promise<void> {
    // If this session fails to open, other processes judge the worker by its beats until the thread has a session.
    await this.#firstSession.open().catch((error) => this.#options.events.emit('error', { error, where: 'heartbeat' }));
    this.#showTick();
    this.#startThread();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS);
    this.#check.start();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#ticker !== null) clearInterval(this.#ticker);
    await this.#check.stop();
    Atomics.store(this.#words, WORD.stop, 1);
    Atomics.notify(this.#words, WORD.stop);
    await this.#exited;
    await this.#firstSession.close();
  }

  #startThread(): void {
    const data: HeartbeatThreadData = {
      url: this.#options.database.url,
      workerId: this.#options.worker.id,
      words: this.#shared,
      lateStartLeases: this.#options.worker.lateStartLeases.shared,
      processMemory,
      // In a thread of the user, the rest of the process may be well.
      mayEndProcess: this.#options.exitWhenBlocked && isMainThread,
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

  /** A cancellation was requested: check now. */
  wake(): void {
    this.#check.wake();
  }

  /** A job arrived whose lease is shorter than any before. */
  shorten(leaseMs: number): void {
    const intervalMs = intervalFor(leaseMs, this.#options.maxIntervalMs);
    if (intervalMs >= (this.#words[WORD.intervalMs] as number)) return;
    Atomics.store(this.#words, WORD.intervalMs, intervalMs);
    Atomics.notify(this.#words, WORD.stop); // The thread waits here for its next beat.
    this.#check.wake();
  }

  async #round(): Promise<number> {
    const { database, worker } = this.#options;
    const jobs = worker.leases();
    const sentMs = performance.now();
    const beatMs = this.#words[WORD.intervalMs] as number;
    const beat = await heartbeat(database.workers, { workerId: worker.id, jobs, beatMs });
    if (!beat.alive) {
      worker.abandon();
      this.#options.onDead();
      return MAX_INTERVAL_MS;
    }
    this.#lastBeatMs = Math.max(this.#lastBeatMs, sentMs);
    if (this.#hasReturnedJobs && worker.running.size === 0) {
      // Other workers may also have the jobs that it leased ahead. Registering again is simpler than finding out.
      this.#options.onDead();
      return MAX_INTERVAL_MS;
    }
    this.#hasReturnedJobs = false;
    worker.lose(beat.lost);
    for (const { leaseSeq, force } of beat.cancels) worker.cancel(leaseSeq, force);
    return Math.min(beatMs, 1_000);
  }

  /** Shows the thread that the main thread is not blocked, and stops handlers whose lease may expire before a beat gets through. */
  #tick(): void {
    this.#showTick();
    if (Atomics.load(this.#words, WORD.hasSession) === 1) void this.#firstSession.close();
    const silentMs = this.#silenceMs();
    for (const { job, policy } of this.#options.worker.running.values()) {
      if (silentMs <= Math.min(policy.leaseMs, UNREACHABLE_MS) * SAFE_SHARE) continue;
      this.#hasReturnedJobs = true;
      this.#options.worker.stopAndReturn(job.leaseSeq);
    }
  }

  #showTick(): void {
    withdrawGiveUp();
    Atomics.store(this.#words, WORD.mainTickMs, sharedClockMs());
    Atomics.store(this.#words, WORD.isDebugged, inspectorUrl() === undefined ? 0 : 1);
  }

  #silenceMs(): number {
    const own = performance.now() - this.#lastBeatMs;
    const stamp = Atomics.load(this.#words, WORD.lastBeatMs);
    return stamp === 0 ? own : Math.min(own, sinceMs(stamp));
  }
}

export function intervalFor(leaseMs: number, maxMs = MAX_INTERVAL_MS): number {
  return Math.max(50, Math.min(maxMs, Math.floor(leaseMs / BEATS_PER_LEASE)));
}
