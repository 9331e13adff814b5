import { setTimeout as sleep } from 'node:timers/promises';
import type { IngestLogLine } from '../../core/ingest/log-line.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { appendLines, numberEntries, type TimedLine } from '../../ledger/ingest/streams.ts';

/** Lines beyond this are dropped while the database is away. */
const MOST_WAITING = 10_000;
const AT_ONCE = 500;
const GATHER_MS = 100;
/** How long a download waits at its end for others, whose lines are written with its own. */
const SHARE_MS = 10;
const MAX_MESSAGE = 2_000;

/** Writes the lines of downloads to the stream jobs.logs, many with one statement, without making a download wait. */
export class IngestLog {
  readonly #database: Database;
  #waiting: TimedLine[] = [];
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #sharing: Promise<void> | null = null;

  constructor(database: Database) {
    this.#database = database;
  }

  add(jobId: string, { level, event, resourceId, message, details }: IngestLogLine): void {
    if (this.#waiting.length >= MOST_WAITING) return;
    const body = {
      level,
      event,
      ...(resourceId === undefined ? {} : { resource_id: resourceId }),
      message: message.slice(0, MAX_MESSAGE),
      ...(details === undefined ? {} : { details }),
    };
    this.#waiting.push({ jobId, at: new Date(), body });
    this.#timer ??= setTimeout(() => void this.flush().catch(() => {}), GATHER_MS).unref();
  }

  /** Resolves when all lines that were added before are written, or could not be. */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /** Like `flush`, but callers within a moment share one write. */
  flushTogether(): Promise<void> {
    this.#sharing ??= sleep(SHARE_MS).then(() => {
      this.#sharing = null;
      return this.flush();
    });
    return this.#sharing;
  }

  /** A line of another part of the program has no offset yet. Once it has one, the next lines are written with theirs. */
  async #append(lines: readonly TimedLine[]): Promise<void> {
    const { workers } = this.#database;
    const { waits } = await appendLines(workers, lines);
    if (waits) await numberEntries(workers, 'jobs.logs');
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting.splice(0, AT_ONCE);
      // A log line never fails a download. The outcome of the task is in the ledger in any case.
      await this.#append(lines).catch(() => {});
    }
  }
}
