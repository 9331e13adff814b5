import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { Database } from '../ledger/database.ts';
import { listen, newListener, notifyHints } from '../ledger/notify.ts';
import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';

/** What may have changed. Hints only: whoever misses one finds out by polling. */
const HINTS = ['ready', 'timers', 'releases', 'cancel', 'settings'] as const;
export type Hint = (typeof HINTS)[number];

const MIN_GAP_MS = 50;
const PROBE_MS = 5_000;
const SEPARATOR = ' ';

type NotifierOptions = {
  database: Database;
  events: EventHub;
  onHint(hint: Hint): void;
  /** How long a connection may be dead before it is found out. */
  probeMs?: number;
};

/**
 * Wakes other processes. Hints are gathered and sent at most twenty times a second, outside any job's transaction: a NOTIFY
 * inside one would make all commits of the database queue for a single lock.
 */
export class Notifier implements Service {
  readonly #database: Database;
  readonly #events: EventHub;
  readonly #onHint: (hint: Hint) => void;
  readonly #probeMs: number;
  readonly #pending = new Set<Hint>();
  readonly #self = randomUUID();
  readonly #listening: Loop;
  readonly #sending: Loop;
  #client: pg.Client | null = null;

  constructor(params: NotifierOptions) {
    this.#probeMs = params.probeMs ?? PROBE_MS;
    this.#database = params.database;
    this.#events = params.events;
    this.#onHint = params.onHint;
    const onError = (error: unknown, where: string) => this.#events.emit('error', { error, where });
    this.#listening = new Loop({ name: 'listener', round: () => this.#listen(), onError });
    this.#sending = new Loop({ name: 'notifier', round: () => this.#send(), onError });
  }

  /** From here on this process can tell others; it hears them between start and stop. */
  open(): void {
    this.#sending.start();
  }

  async close(): Promise<void> {
    await this.#sending.stop();
    if (this.#pending.size > 0) await this.#tell().catch(() => {});
  }

  start(): void {
    this.#listening.start();
  }

  async stop(): Promise<void> {
    await this.#listening.stop();
    await this.#client?.end().catch(() => {});
    this.#client = null;
  }

  /** Tells other processes. Never waits, never fails. */
  hint(hint: Hint): void {
    if (this.#pending.has(hint)) return;
    this.#pending.add(hint);
    if (this.#pending.size === 1) this.#sending.wake();
  }

  async #send(): Promise<number> {
    if (this.#pending.size === 0) return 60_000;
    await this.#tell();
    await new Promise((resolve) => setTimeout(resolve, MIN_GAP_MS));
    return this.#pending.size > 0 ? 0 : 60_000;
  }

  async #tell(): Promise<void> {
    const hints = [...this.#pending];
    this.#pending.clear();
    try {
      await notifyHints(this.#database.maintenance, [this.#self, ...hints].join(SEPARATOR));
    } catch (error) {
      for (const hint of hints) this.#pending.add(hint);
      throw error;
    }
  }

  /** Keeps one connection listening; a lost one is replaced at the next round. One that died without a word is found by asking. */
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
    if (this.#client === null) for (const hint of HINTS) this.#onHint(hint); // Whatever was said while nobody listened.
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
      if (sender === this.#self) return; // This process acted on it before it told the others.
      for (const word of words) if (HINTS.includes(word as Hint)) this.#onHint(word as Hint);
    });
    return client;
  }
}
