import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { PAUSES, pauseMs } from '../core/backoff.ts';
import type { Database } from '../ledger/driver/database.ts';
import { listen, newListener, notifyHints } from '../ledger/driver/notify.ts';
import type { Queryable } from '../ledger/driver/statement.ts';
import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';
import { NewsHints } from './news.ts';

/** What may have changed. A process that misses a hint finds out by polling. */
const HINTS = ['ready', 'granted', 'timers', 'releases', 'cancel', 'catalogue', 'intake'] as const;
export type Hint = (typeof HINTS)[number];

/** Hints within this time share a statement. Between two processes, a job starts 23.7 ms after its submit with 50, and 2.6 ms with 2. */
const GAP_MS = 2;
/** If this many jobs arrive within the gap, workers have enough to do, so the next gap is longer. */
const FLOOD_JOBS = 32;
const FLOOD_GAP_MS = 10;
const MAX_FAILURES = 8;
const PROBE_MS = 5_000;
const SEPARATOR = ' ';
/** Begins the word that lists limits. A notification has room for so many; the sweep of the granter finds the others. */
const LIMITS = 'limits=';
const MAX_LIMITS = 200;
/** Begins the word that names jobs with news. */
const NEWS = 'news=';

type NotifierOptions = {
  database: Database;
  events: EventHub;
  onHint(hint: Hint): void;
  /** Jobs with these limits were submitted by a process that does not work. */
  onLimits?(limitIds: readonly number[]): void;
  /** How long a dead connection may go unnoticed. */
  probeMs?: number;
};

/**
 * Sends hints to other processes and receives theirs. An idle notifier sends a hint immediately. Hints that follow within
 * `GAP_MS` share the next statement. Each statement is a separate transaction: a NOTIFY inside a job's transaction
 * would make all commits of the database queue for one lock.
 */
export class Notifier implements Service {
  /** Hints to followers of jobs. Unlike the other hints, they are sent once. */
  readonly news = new NewsHints({ send: (word) => this.#sendNews(word) });
  readonly #database: Database;
  readonly #events: EventHub;
  readonly #onHint: (hint: Hint) => void;
  readonly #onLimits: (limitIds: readonly number[]) => void;
  readonly #probeMs: number;
  readonly #pending = new Set<Hint>();
  readonly #limits = new Set<number>();
  readonly #sending = new Set<Promise<void>>();
  readonly #self = randomUUID();
  readonly #listening: Loop;
  #gap: NodeJS.Timeout | null = null;
  /** How many jobs the hints since the last statement announce. */
  #jobs = 0;
  #failures = 0;
  #isOpen = false;
  #client: pg.Client | null = null;

  constructor(params: NotifierOptions) {
    this.#probeMs = params.probeMs ?? PROBE_MS;
    this.#database = params.database;
    this.#events = params.events;
    this.#onHint = params.onHint;
    this.#onLimits = params.onLimits ?? (() => {});
    this.#listening = new Loop({ name: 'listener', round: () => this.#listen(), events: params.events });
  }

  /** From now on this process sends hints. It receives them between start and stop. */
  open(): void {
    this.#isOpen = true;
    this.#flush(this.#database.workers);
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    if (this.#gap !== null) clearTimeout(this.#gap);
    this.#gap = null;
    if (this.#pending.size > 0 || this.#limits.size > 0) this.#send(this.#database.workers);
    await Promise.all(this.#sending);
  }

  start(): void {
    this.#listening.start();
  }

  async stop(): Promise<void> {
    await this.#listening.stop();
    await this.#client?.end().catch(() => {});
    this.#client = null;
  }

  /**
   * Sends a hint to other processes. Never waits, never fails. `behind` is the connection whose last statement made the
   * change: the hint follows it there, without waiting for the response.
   */
  hint(hint: Hint, behind: Queryable = this.#database.workers, jobs = 1): void {
    this.#pending.add(hint);
    this.#jobs += jobs;
    if (this.#isOpen && this.#gap === null) this.#flush(behind);
  }

  /** Like `hint`, for jobs that need a grant of their limit. */
  hintLimits(limitIds: Iterable<number>): void {
    for (const id of limitIds) if (this.#limits.size < MAX_LIMITS) this.#limits.add(id);
    if (this.#isOpen && this.#gap === null) this.#flush(this.#database.workers);
  }

  #sendNews(word: string): void {
    if (!this.#isOpen) return;
    const text = [this.#self, `${NEWS}${word}`].join(SEPARATOR);
    const onError = (error: unknown) => this.#events.emit('error', { error, where: 'notifier' });
    this.#track(notifyHints(this.#database.workers, text).catch(onError));
  }

  #flush(db: Queryable): void {
    if (this.#pending.size === 0 && this.#limits.size === 0) return;
    this.#send(db);
    this.#gap = setTimeout(() => {
      this.#gap = null;
      this.#flush(this.#database.workers);
    }, this.#gapMs()).unref();
    this.#jobs = 0;
  }

  #gapMs(): number {
    if (this.#failures > 0) return pauseMs(PAUSES.notificationFailed, this.#failures, Math.random());
    return this.#jobs >= FLOOD_JOBS ? FLOOD_GAP_MS : GAP_MS;
  }

  #send(db: Queryable): void {
    const hints = [...this.#pending];
    this.#pending.clear();
    const limits = [...this.#limits];
    this.#limits.clear();
    const words = limits.length === 0 ? hints : [...hints, `${LIMITS}${limits.join(',')}`];
    const sending = notifyHints(db, [this.#self, ...words].join(SEPARATOR)).then(
      () => {
        this.#failures = 0;
      },
      (error) => {
        this.#failures = Math.min(this.#failures + 1, MAX_FAILURES);
        this.#events.emit('error', { error, where: 'notifier' });
        for (const hint of hints) this.hint(hint);
        if (limits.length > 0) this.hintLimits(limits);
      },
    );
    this.#track(sending);
  }

  #track(sending: Promise<void>): void {
    this.#sending.add(sending);
    void sending.then(() => this.#sending.delete(sending));
  }

  /**
   * Keeps one connection listening. The next round replaces a lost connection, and each round probes it, because a
   * connection may die silently.
   */
  async #listen(): Promise<number> {
    const client = this.#client ?? this.#newClient();
    try {
      if (this.#client === null) await client.connect();
      await listen(client);
    } catch (error) {
      this.#client = null;
      client.end().catch(() => {});
      throw error;
    }
    if (this.#client === null) for (const hint of HINTS) this.#onHint(hint); // Hints may have been missed while no connection listened.
    this.#client = client;
    return this.#probeMs;
  }

  #newClient(): pg.Client {
    const client = newListener(this.#database.url);
    client.on('error', () => {
      if (this.#client === client) this.#client = null;
      this.#listening.wake();
    });
    client.on('notification', ({ payload }) => {
      const [sender, ...words] = (payload ?? '').split(SEPARATOR);
      if (sender === this.#self) return; // This process acted on the hint when it sent it.
      for (const word of words) {
        if (HINTS.includes(word as Hint)) this.#onHint(word as Hint);
        else if (word.startsWith(NEWS)) this.news.receive(word.slice(NEWS.length));
        else if (word.startsWith(LIMITS)) this.#onLimits(word.slice(LIMITS.length).split(',').map(Number));
      }
    });
    return client;
  }
}
