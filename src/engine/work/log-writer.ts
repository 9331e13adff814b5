import { LOG_LIMITS, type LogLevel } from '../../core/job-log.ts';
import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import { trimLogs, writeLogs } from '../../ledger/attempts/write-logs.ts';
import { fitting } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import type { EventHub } from '../events.ts';
import type { NewsHints } from '../news.ts';

/** Lines that come within this time share a statement. A process that is killed loses the lines of this time. */
const GAP_MS = 100;
const RETRY_MS = 1_000;
const MAX_LINES = 1_000;
/** The lines of all attempts that are not stored yet. While the database is down, lines beyond this are dropped and counted. */
const MAX_BUFFERED_BYTES = 16 * 1_048_576;

/** The attempt that logged a line. */
export type LineSource = {
  readonly job: StartedJob;
  /** So many of its lines are stored, or given up. */
  written(count: number): void;
};

export type BufferedLine = {
  readonly source: LineSource;
  readonly n: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: string | null;
  /** On the monotonic clock of this process. */
  readonly atMs: number;
  readonly bytes: number;
};

export type LogWriterOptions = { database: Database; events: EventHub; news: NewsHints };

/** Stores the log lines of all handlers of a process, many to a statement. */
export class LogWriter {
  readonly #options: LogWriterOptions;
  #buffer: BufferedLine[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;

  constructor(options: LogWriterOptions) {
    this.#options = options;
  }

  /** Returns false, and drops the line, if too many lines wait. */
  add(line: BufferedLine): boolean {
    if (this.#bytes > MAX_BUFFERED_BYTES) return false;
    this.#buffer.push(line);
    this.#bytes += line.bytes;
    if (this.#buffer.length >= MAX_LINES) this.flush();
    else this.#flushIn(GAP_MS);
    return true;
  }

  /** Stores what is buffered now, without waiting for more. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
    });
  }

  /** Resolves when no line waits, or none can be stored. */
  async idle(): Promise<void> {
    this.flush();
    await this.#writing;
  }

  #flushIn(ms: number): void {
    this.#timer ??= setTimeout(() => this.flush(), ms).unref();
  }

  async #writeAll(): Promise<void> {
    while (this.#buffer.length > 0) {
      const taken = this.#take();
      try {
        await this.#write(taken);
      } catch (error) {
        this.#options.events.emit('error', { error, where: 'log writer' });
        if (isPassing(error)) {
          this.#putBack(taken);
          this.#flushIn(RETRY_MS);
          return;
        }
      }
      this.#release(taken);
    }
  }

  #take(): BufferedLine[] {
    const taken = this.#buffer.slice(
      0,
      fitting(this.#buffer, MAX_LINES, ({ bytes }) => bytes),
    );
    this.#buffer = this.#buffer.slice(taken.length);
    return taken;
  }

  /** They still count as buffered. */
  #putBack(taken: readonly BufferedLine[]): void {
    this.#buffer = [...taken, ...this.#buffer];
  }

  async #write(taken: readonly BufferedLine[]): Promise<void> {
    const { database, news } = this.#options;
    const nowMs = performance.now();
    const rows = taken.map(({ source: { job }, n, level, message, fields, atMs }) => ({
      ...{ orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, attempt: job.attemptsStarted },
      ...{ n, level, message, fields, ageMs: nowMs - atMs },
    }));
    await writeLogs(database.workers, rows);
    for (const [{ job }, own] of Map.groupBy(taken, ({ source }) => source)) {
      const { orgId, seq, leaseSeq, attemptsStarted } = job;
      const [first, last] = [own[0] as BufferedLine, own.at(-1) as BufferedLine];
      news.lines({ orgId, seq, leaseSeq, from: first.n, to: last.n });
      if (first.n === 1 && attemptsStarted > LOG_LIMITS.attempts) {
        await trimLogs(database.workers, { orgId, seq, attempts: LOG_LIMITS.attempts });
      }
    }
  }

  /** Stored or given up: their attempts need not wait for them any longer. */
  #release(taken: readonly BufferedLine[]): void {
    for (const { bytes } of taken) this.#bytes -= bytes;
    for (const [source, own] of Map.groupBy(taken, (line) => line.source)) source.written(own.length);
  }
}
