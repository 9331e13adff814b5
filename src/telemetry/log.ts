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

export type Log = {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
};

/** A log whose lines are objects; `write` decides where they go. */
export function createLog(write: (line: LogLine) => void): Log {
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void =>
      write({ time: new Date().toISOString(), level, message, ...present(fields) });
  return { info: at('info'), warn: at('warn'), error: at('error') };
}

function present(fields: LogFields): LogFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}
