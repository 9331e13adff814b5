import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { Database } from '../ledger/database.ts';
import { listenText, notifyHints } from '../ledger/notify.ts';
import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';

/** What may have changed. Hints only: whoever misses one finds out by polling. */
const HINTS = ['ready', 'timers', 'releases', 'cancel', 'settings'] as const;
export type Hint = (typeof HINTS)[number];

const MIN_GAP_MS = 50;
const SEPARATOR = ' ';

/**
 * Wakes other processes. Hints are gathered and sent at most twenty times a second, outside any job's transaction: a NOTIFY
 * inside one would make all commits of the database queue for a single lock.
 */
export class Notifier implements Service {
  readonly #database: Database;
  readonly #events: EventHub;
  readonly #onHint: (hint: Hint) => void;
  readonly #pending = new Set<Hint>();
  readonly #self = randomUUID();
  readonly #listening: Loop;
  readonly #sending: Loop;
  #client: pg.Client | null = null;

  constructor(params: { database: Database; events: EventHub; onHint(hint: Hint): void }) {
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
    await notifyHints(this.#database.maintenance, [this.#self, ...hints].join(SEPARATOR));
  }

  /** Keeps one connection listening; a lost one is replaced at the next round. */
  async #listen(): Promise<number> {
    if (this.#client !== null) return 5_000;
    const client = new pg.Client({
      connectionString: this.#database.url,
      application_name: 'millrace listener',
      keepAlive: true,
    });
    client.on('error', () => {
      if (this.#client === client) this.#client = null;
      this.#listening.wake();
    });
    client.on('notification', ({ payload }) => {
      const [sender, ...words] = (payload ?? '').split(SEPARATOR);
      if (sender === this.#self) return; // This process acted on it before it told the others.
      for (const word of words) if (HINTS.includes(word as Hint)) this.#onHint(word as Hint);
    });
    await client.connect();
    await client.query(listenText);
    this.#client = client;
    for (const hint of HINTS) this.#onHint(hint); // Whatever was said while nobody listened.
    return 5_000;
  }
}
