import { boundText } from '../../core/bounded-text.ts';
import { LOG_LIMITS, type LogLevel } from '../../core/job-log.ts';
import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import type { LineSource, LogWriter } from './log-writer.ts';

/** How long the outcome of an attempt waits for its lines. Without a database, the outcome cannot be written either. */
const PATIENCE_MS = 2_000;

/** The log lines of one attempt. Created with its first line, because most handlers log nothing. */
export class AttemptLines implements LineSource {
  readonly job: StartedJob;
  readonly #writer: LogWriter;
  #count = 0;
  #bytes = 0;
  #dropped = 0;
  /** Lines that the writer has and has not stored. */
  #waiting = 0;
  #onWritten: (() => void) | null = null;

  constructor(job: StartedJob, writer: LogWriter) {
    this.job = job;
    this.#writer = writer;
  }

  /** Never waits and never fails. Stores the line with what an attempt may store, and otherwise only counts it. */
  add(level: LogLevel, message: string, fields: Record<string, unknown>): void {
    if (this.#count >= LOG_LIMITS.lines || this.#bytes >= LOG_LIMITS.bytes) {
      this.#dropped++;
      return;
    }
    const text = boundText(message, LOG_LIMITS.messageBytes);
    if (!this.#write(level, text, fieldsText(fields))) this.#dropped++;
  }

  /** Reports the lines that were not stored, and resolves when the others are. */
  async close(): Promise<void> {
    if (this.#dropped > 0) {
      const { lines, bytes } = LOG_LIMITS;
      const fields = JSON.stringify({ dropped: this.#dropped });
      const message = `${this.#dropped} more lines were not stored. An attempt may store ${lines} lines and ${bytes} bytes.`;
      this.#dropped = 0;
      this.#write('warn', message, fields);
    }
    await this.flush();
  }

  /** Resolves when the lines are stored, or after a short time. */
  async flush(): Promise<void> {
    if (this.#waiting === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onWritten = resolve;
    this.#writer.flush();
    const timer = setTimeout(resolve, PATIENCE_MS);
    await promise;
    clearTimeout(timer);
    this.#onWritten = null;
  }

  written(count: number): void {
    this.#waiting -= count;
    if (this.#waiting === 0) this.#onWritten?.();
  }

  #write(level: LogLevel, message: string, fields: string | null): boolean {
    const bytes = Buffer.byteLength(message) + (fields === null ? 0 : Buffer.byteLength(fields));
    const line = { source: this, n: this.#count + 1, level, message, fields, atMs: performance.now(), bytes };
    if (!this.#writer.add(line)) return false;
    this.#count++;
    this.#bytes += bytes;
    this.#waiting++;
    return true;
  }
}

/** The fields were bounded before. A getter or `toJSON` may still return something else, or throw, the second time. */
function fieldsText(fields: Record<string, unknown>): string | null {
  try {
    const text = JSON.stringify(fields);
    return text === undefined || text === '{}' || Buffer.byteLength(text) > LOG_LIMITS.fieldsBytes ? null : text;
  } catch {
    return null;
  }
}
