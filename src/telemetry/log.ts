/** The fields that lines about requests and jobs share; what does not apply is left out. */
export type LogFields = {
  readonly request_id?: string;
  readonly client_id?: string;
  readonly job_id?: string;
  /** submit, cancel, retry, get, report and so on. */
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

type LogLevel = 'info' | 'warn' | 'error';

/** Fields that are many may be given as a function, which is called where the line is wanted. */
type Write = (message: string, fields?: LogFields | (() => LogFields)) => void;

export type Log = Readonly<Record<LogLevel, Write>>;

const LEVELS = ['info', 'warn', 'error'] as const satisfies readonly LogLevel[];
const nothing = (): void => {};

/** A log whose lines are objects; `write` decides where they go. Below `least` nobody wants them, so they are not made. */
export function createLog(write: (line: LogLine) => void, least: LogLevel = 'info'): Log {
  const at = (level: LogLevel): Write => {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(least)) return nothing;
    return (message, fields = {}) => write(lineOf(level, message, typeof fields === 'function' ? fields() : fields));
  };
  return { info: at('info'), warn: at('warn'), error: at('error') };
}

function lineOf(level: LogLevel, message: string, fields: LogFields): LogLine {
  const isTold = ([, value]: [string, unknown]) => value !== undefined && value !== null;
  const told = Object.fromEntries(Object.entries(fields).filter(isTold));
  return { time: new Date().toISOString(), level, message, ...told };
}
