import { boundFields } from './bounded-text.ts';

/** The levels of a log line, least important first. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

/** The level of a log line of a handler. */
export type LogLevel = (typeof LOG_LEVELS)[number];

const isLogLevel = (value: unknown): value is LogLevel => (LOG_LEVELS as readonly unknown[]).includes(value);

/** How much of what a handler logs is stored. */
export const LOG_LIMITS = {
  /** A longer message is cut. */
  messageBytes: 8_192,
  fieldsBytes: 16_384,
  /** Of one attempt. Further lines are counted, and one line reports their number. */
  lines: 1_000,
  bytes: 1_048_576,
  /** The lines of older attempts are removed. */
  attempts: 10,
} as const;

/** Where a line stands among those of its job. A later attempt has a higher `leaseSeq`. */
export type LogPosition = { readonly leaseSeq: number; readonly n: number };

export const FIRST_LINE: LogPosition = { leaseSeq: 0, n: 0 };

/** A line that a handler logged. */
export type LogLine = {
  /** The attempt that logged it. The first is 1. */
  readonly attempt: number;
  /** How important it is. */
  readonly level: LogLevel;
  /** The text. */
  readonly message: string;
  /** What the handler gave in addition to the text. */
  readonly fields: Record<string, unknown>;
  /** When the handler logged it, by the database's clock. */
  readonly at: Date;
};

/**
 * Reads what a handler passed to `log`: a level, a message and fields, or only a message. A handler must not fail because of a line, so
 * anything is accepted: an unknown level counts as `info`, and fields that have no JSON form are left out.
 */
export function readLogCall([first, second, fields]: readonly unknown[]): Pick<LogLine, 'level' | 'message' | 'fields'> {
  const hasLevel = second !== undefined;
  return { level: hasLevel && isLogLevel(first) ? first : 'info', message: textOf(hasLevel ? second : first), fields: readFields(fields) };
}

function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return '(a value that has no text)';
  }
}

function readFields(fields: unknown): Record<string, unknown> {
  if (typeof fields !== 'object' || fields === null) return fields == null ? {} : { value: fields };
  try {
    return boundFields(fields as Record<string, unknown>, LOG_LIMITS.fieldsBytes);
  } catch {
    return {};
  }
}
