import { FloodLimit } from './flood-limit.ts';
import { safeFields } from './safe-fields.ts';

/** Fields that log lines about requests and jobs share. docs/reference/logs.md explains each. */
export type LogFields = {
  readonly request_id?: string;
  readonly correlation_id?: string;
  readonly job_id?: string;
  readonly job_type?: string;
  readonly org_id?: string;
  readonly project_id?: string;
  /** The org, as the execution API calls it; only in its lines. */
  readonly client_id?: string;
  /** Such as submit, cancel, retry, get or report. */
  readonly action?: string;
  readonly attempt?: number;
  readonly current_state?: string;
  readonly next_state?: string;
  readonly error_code?: string;
  readonly error_message?: string;
  readonly scenario?: string;
  readonly duration_ms?: number;
  readonly expected_outcome?: string;
  readonly reason?: string;
} & Readonly<Record<string, unknown>>;

export type LogLine = { readonly time: string; readonly level: LogLevel; readonly message: string } & LogFields;

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'off'] as const;
/** `off` is no level of a line: it drops all of them. */
type LeastLevel = (typeof LOG_LEVELS)[number];
export type LogLevel = Exclude<LeastLevel, 'off'>;

/** `fields` can be a function, which is called only when the line is written. */
type Write = (message: string, fields?: LogFields | (() => LogFields)) => void;

export type Log = Readonly<Record<LogLevel, Write>> & {
  /** Whether lines of this level are written. */
  readonly writes: (level: LogLevel) => boolean;
};

export type LogOptions = {
  /** Lines below this level are dropped; default `info`. */
  readonly least?: LeastLevel;
  /** The most lines with the same message in a second; default: no limit. */
  readonly limit?: number;
  /** Called with the number of lines that were over the limit. */
  onDropped?(lines: number): void;
};

/** Passes lines as objects to `write`, without secrets and payloads. */
export function createLog(write: (line: LogLine) => void, { least = 'info', limit = 0, onDropped }: LogOptions = {}): Log {
  const flood = new FloodLimit(limit, (kind, dropped) => {
    onDropped?.(dropped);
    write(lineOf('warn', 'log.dropped', { kind, dropped }));
  });
  const writes = (level: LogLevel): boolean => LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least);
  const at = (level: LogLevel): Write => {
    if (!writes(level)) return () => {};
    return (message, fields = {}) => {
      if (flood.admits(message)) write(lineOf(level, message, typeof fields === 'function' ? fields() : fields));
    };
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), writes };
}

function lineOf(level: LogLevel, message: string, fields: LogFields): LogLine {
  return { time: new Date().toISOString(), level, message, ...safeFields(fields) };
}
