import { setTimeout as delay } from 'node:timers/promises';
import { type ExecutionState, outcomeOf } from '../core/execution/states.ts';
import type { ExecutionApi } from './api.ts';
import type { JobView } from './wire.ts';

export type Watched = { readonly apiKey: string; readonly jobId: string; readonly notBeforeMs?: number };

type Waiter = Watched & { resolve(job: JobView | null): void };

export type WatchOptions = {
  api: Pick<ExecutionApi, 'get' | 'list'>;
  signal: AbortSignal;
  everyMs?: number;
  /** Give up on a due job if no job of its client ends for this long. */
  patienceMs?: number;
};

const EVERY_MS = 250;
const PATIENCE_MS = 300_000;
const IDS_IN_A_CALL = 100;

/** Waits for many jobs with few requests. */
export class JobWatch {
  readonly #options: WatchOptions;
  readonly #waiting = new Map<string, Map<string, Waiter>>();

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Resolves when the job is in a final state, or with null on giving up. A job is not polled before it is due. */
  final(job: Watched): Promise<JobView | null> {
    const { promise, resolve } = Promise.withResolvers<JobView | null>();
    const known = this.#waiting.get(job.apiKey);
    const waiters = known ?? new Map<string, Waiter>();
    waiters.set(job.jobId, { ...job, resolve });
    if (known === undefined) {
      this.#waiting.set(job.apiKey, waiters);
      void this.#watch(job.apiKey, waiters);
    }
    return promise;
  }

  /** Polls one job until it is in the state, has ended, or the wait is too long. */
  async reaches(job: Watched, state: ExecutionState, everyMs: number): Promise<void> {
    const { signal, api, patienceMs = PATIENCE_MS } = this.#options;
    const { apiKey, jobId, notBeforeMs = 0 } = job;
    const startMs = Math.max(notBeforeMs, performance.now());
    await delay(Math.max(0, startMs - performance.now()), undefined, { signal });
    while (performance.now() - startMs < patienceMs) {
      const { body } = await api.get(apiKey, jobId);
      if (body.state === state || isFinal(body.state)) return;
      await delay(everyMs, undefined, { signal });
    }
  }

  async #watch(apiKey: string, waiters: Map<string, Waiter>): Promise<void> {
    const { signal, everyMs = EVERY_MS, patienceMs = PATIENCE_MS } = this.#options;
    let newsMs = performance.now();
    while (waiters.size > 0 && !signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(() => {});
      const due = [...waiters.values()].filter(({ notBeforeMs = 0 }) => notBeforeMs <= performance.now());
      if (due.length === 0 || (await this.#look(apiKey, waiters, due))) newsMs = performance.now();
      if (performance.now() - newsMs > patienceMs) for (const waiter of due) settle(waiters, waiter, null);
    }
    this.#waiting.delete(apiKey);
    for (const waiter of waiters.values()) waiter.resolve(null);
  }

  async #look(apiKey: string, waiters: Map<string, Waiter>, due: readonly Waiter[]): Promise<boolean> {
    let hasNews = false;
    for (let at = 0; at < due.length && !this.#options.signal.aborted; at += IDS_IN_A_CALL) {
      const ids = due.slice(at, at + IDS_IN_A_CALL).map(({ jobId }) => jobId);
      const answer = await this.#options.api.list(apiKey, ids).catch(() => null);
      for (const job of answer?.body.jobs ?? []) {
        const waiter = waiters.get(job.job_id);
        if (waiter === undefined || !isFinal(job.state)) continue;
        settle(waiters, waiter, job);
        hasNews = true;
      }
    }
    return hasNews;
  }
}

function settle(waiters: Map<string, Waiter>, waiter: Waiter, job: JobView | null): void {
  waiters.delete(waiter.jobId);
  waiter.resolve(job);
}

export const isFinal = (state: ExecutionState | undefined): boolean => state !== undefined && outcomeOf(state) !== null;
