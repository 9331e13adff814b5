/** Fields that log lines about requests and jobs share. */
export type LogFields = {
  readonly request_id?: string;
  readonly client_id?: string;
  readonly job_id?: string;
  /** Such as submit, cancel, retry, get or report. */
  readonly action?: string;
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

const LEVELS = ['info', 'warn', 'error'] as const;
type LogLevel = (typeof LEVELS)[number];

/** `fields` can be a function, which is called only when the line is written. */
type Write = (message: string, fields?: LogFields | (() => LogFields)) => void;

export type Log = Readonly<Record<LogLevel, Write>>;

/** Passes lines as objects to `write`. Lines below the level `least` are dropped. */
export function createLog(write: (line: LogLine) => void, least: LogLevel = 'info'): Log {
  const at = (level: LogLevel): Write => {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(least)) return () => {};
    return (message, fields = {}) => write(lineOf(level, message, typeof fields === 'function' ? fields() : fields));
  };
  return { info: at('info'), warn: at('warn'), error: at('error') };
}

function lineOf(level: LogLevel, message: string, fields: LogFields): LogLine {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  return { time: new Date().toISOString(), level, message, ...Object.fromEntries(present) };
}
