export type TimestampInput = string | Date;

export type ParsedTimestamp = { readonly ok: true; readonly date: Date } | { readonly ok: false; readonly message: string };

// Seconds are optional. The offset is required, because a local time is ambiguous.
const RFC3339 = /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:[Zz]|([+-])(\d{2}):?(\d{2}))$/;
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const FIRST_MS = Date.parse('0000-01-01T00:00:00.000Z');

export function parseTimestamp(input: TimestampInput): ParsedTimestamp {
  if (input instanceof Date) return inRange(input.getTime());
  if (typeof input !== 'string') return refuse();
  const match = RFC3339.exec(input);
  if (!match) return refuse();
  const [, year, month, day, hour, minute, second = '0', fraction = '', sign, offsetHour = '0', offsetMinute = '0'] = match;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return refuse();
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return refuse();
  const midnight = Date.parse(`${year}-${month}-${day}T00:00:00.000Z`);
  // Date.parse turns 30 February into a day of March, so the day must survive the round trip.
  if (Number.isNaN(midnight) || new Date(midnight).getUTCDate() !== Number(day)) return refuse();
  const clockMs = (Number(hour) * 3_600 + Number(minute) * 60 + Number(second)) * 1_000;
  const fractionMs = Number(fraction.padEnd(3, '0').slice(0, 3));
  const offsetMs = (Number(offsetHour) * 60 + Number(offsetMinute)) * 60_000 * (sign === '-' ? -1 : 1);
  return inRange(midnight + clockMs + fractionMs - offsetMs);
}

function inRange(ms: number): ParsedTimestamp {
  if (Number.isNaN(ms) || ms > LAST_MS || ms < FIRST_MS) return refuse();
  return { ok: true, date: new Date(ms) };
}

function refuse(): ParsedTimestamp {
  return { ok: false, message: 'use ISO 8601 with an offset, such as 2024-01-15T10:30:00Z' };
}

let lastMs = Number.NaN;
let lastText = '';

/** RFC 3339 in UTC with milliseconds. Rows of one statement share their time, so the last text is cached. */
export function formatTimestamp(date: Date): string {
  const ms = date.getTime();
  if (ms !== lastMs) {
    lastText = date.toISOString();
    lastMs = ms;
  }
  return lastText;
}
