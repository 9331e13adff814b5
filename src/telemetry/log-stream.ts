import { pino } from 'pino';
import type { LogLine } from './log.ts';

export type LogFormat = 'json' | 'text';

const STDERR = 2;

/** Writes lines to standard error, each before the call returns, so that a process that is killed has written them. */
export function logStream(format: LogFormat): (line: LogLine) => void {
  if (format === 'text') return (line) => process.stderr.write(`${textOf(line)}\n`);
  // The lines have their own time and level, and are filtered before they get here.
  const logger = pino(
    { base: null, level: 'debug', messageKey: 'message', timestamp: false, formatters: { level: (level) => ({ level }) } },
    pino.destination({ fd: STDERR, sync: true }),
  );
  return ({ time, level, message, ...fields }) => logger[level]({ time, ...fields }, message);
}

/** `12:00:00.000 error request request_id=… status=503` */
function textOf({ time, level, message, ...fields }: LogLine): string {
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${showValue(value)}`);
  return [time.slice(11, -1), level.padEnd(5), message, ...shown].join(' ');
}

function showValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^[\w.:/-]*$/.test(text) ? text : JSON.stringify(text);
}
