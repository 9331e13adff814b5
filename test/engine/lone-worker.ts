/** A worker with nobody beside it: no rescuer, no pruner. What becomes of its jobs is its own doing. */
import { onTestFinished } from 'vitest';
import type { DurationInput } from '../../src/core/duration.ts';
import { categoriesWith } from '../../src/core/governance/category.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { Catalogue } from '../../src/engine/catalogue.ts';
import { EventHub } from '../../src/engine/events.ts';
import { NewsHints } from '../../src/engine/news.ts';
import { KnownOrgs } from '../../src/engine/work/known-orgs.ts';
import { Producers } from '../../src/engine/work/producers.ts';
import { HandlerRegistry } from '../../src/engine/work/registry.ts';
import { Supervisor } from '../../src/engine/work/supervisor.ts';
import type { JobContext } from '../../src/index.ts';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { PolicyCache } from '../../src/ledger/jobs/intern-policies.ts';

export type LoneWorkerParams = {
  url: string;
  lease: DurationInput;
  /** What it reads policies on. */
  policiesOn?(database: Database): Queryable;
  lastWritesMs?: number;
};

/** A first attempt: it ends when the test says so, and heeds no signal. */
export type PatientAttempt = { context: JobContext; end(output: unknown): void; stopped: Promise<unknown> };

export class LoneWorker {
  readonly #events = new EventHub();
  readonly #supervisor: Supervisor;
  readonly #began = new Announcements<PatientAttempt>();
  readonly #ended = new Announcements<void>();

  constructor({ url, lease, policiesOn = ({ workers }) => workers, lastWritesMs }: LoneWorkerParams) {
    const database = openDatabase({ url });
    const registry = new HandlerRegistry(PROFILES.gopherqueue);
    const orgs = new KnownOrgs({ database, events: this.#events, deleting: () => new Set() });
    registry.register({ type: 'patient', lease, handler: (context) => this.#attempt(context) });
    this.#supervisor = new Supervisor({
      database,
      registry,
      orgs,
      categories: categoriesWith(),
      producers: new Producers(),
      events: this.#events,
      policies: new PolicyCache(policiesOn(database)),
      catalogue: new Catalogue({ database, events: this.#events, onChange: () => this.#supervisor.refresh() }),
      profile: PROFILES.gopherqueue,
      maxPayloadBytes: 1_048_576,
      name: 'lone',
      slots: 4,
      reservedSlots: 0,
      queues: ['*'],
      lastWritesMs,
      startsApart: false,
      maxResultBytes: 1_048_576,
      pollMs: 50,
      exitWhenBlocked: false,
      news: new NewsHints({ send: () => {} }),
      logs: null,
      artifacts: () => null,
      spawn: () => Promise.reject(new Error('a patient job has no children')),
      onReleased: () => {},
      onDelayed: () => {},
      onLimitFree: () => {},
    });
    for (const word of ['completed', 'lost'] as const) this.#events.on(word, ({ jobId }) => this.#ended.say(`${word} ${jobId}`));
    onTestFinished(async () => {
      await this.#supervisor.drain(0);
      await database.close();
    });
  }

  static async start(params: LoneWorkerParams): Promise<LoneWorker> {
    const worker = new LoneWorker(params);
    await worker.#supervisor.start();
    return worker;
  }

  get id(): number {
    return this.#supervisor.workerId;
  }

  began(jobId: string): Promise<PatientAttempt> {
    return this.#began.heard(jobId);
  }

  /** The ledger has answered how an attempt ended. */
  said(word: 'completed' | 'lost', jobId: string): Promise<void> {
    return this.#ended.heard(`${word} ${jobId}`);
  }

  drain(): Promise<void> {
    return this.#supervisor.drain(0);
  }

  #attempt(context: JobContext): unknown {
    if (context.attempt > 1) return 'again';
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const stopped = new Promise((tell) => context.signal.addEventListener('abort', () => tell(context.signal.reason), { once: true }));
    this.#began.say(context.jobId, { context, end: resolve, stopped });
    return promise;
  }
}

/** What was said is heard, whoever was first. */
class Announcements<T> {
  readonly #said = new Map<string, PromiseWithResolvers<T>>();

  say(words: string, what: T): void {
    this.#of(words).resolve(what);
  }

  heard(words: string): Promise<T> {
    return this.#of(words).promise;
  }

  #of(words: string): PromiseWithResolvers<T> {
    const known = this.#said.get(words) ?? Promise.withResolvers<T>();
    this.#said.set(words, known);
    return known;
  }
}
