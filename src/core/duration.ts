import { invalidRequest } from './errors.ts';

export type DurationInput = string | number;

export type ParsedDuration = { readonly ok: true; readonly ms: number } | { readonly ok: false; readonly message: string };

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
type ShortUnit = keyof typeof UNIT_MS;

const SHORT_FORM = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/;
const N = String.raw`(\d+(?:[.,]\d+)?)`;
const ISO_FORM = new RegExp(`^P(?:${N}W)?(?:${N}D)?(?:T(?:${N}H)?(?:${N}M)?(?:${N}S)?)?$`);
const ISO_UNITS = ['w', 'd', 'h', 'm', 's'] as const satisfies readonly ShortUnit[];
const ISO_CALENDAR = /^P[^T]*\d[YM]/;
const EXAMPLES = 'such as PT5M, PT0.25S, 30s, 5m, 24h or 7d, or a whole number of seconds';

/** Accepts ISO 8601 durations, short forms with a unit, and whole numbers of seconds. */
export function parseDuration(input: DurationInput): ParsedDuration {
  if (typeof input === 'number') return parseSeconds(input);
  if (typeof input !== 'string') return refuse(`a duration must be a string ${EXAMPLES}`);
  const text = input.trim();
  if (/^[-−]|^P.*-/.test(text)) return refuse('a duration cannot be negative');
  if (/^\d+(\.\d+)?$/.test(text)) return refuse(`a duration in a string needs a unit: write ${text}s for seconds`);
  const short = SHORT_FORM.exec(text);
  if (short) return total(Number(short[1]) * UNIT_MS[short[2] as ShortUnit]);
  if (ISO_CALENDAR.test(text)) {
    return refuse('months and years have no fixed length: use weeks, days, hours, minutes or seconds');
  }
  return parseIso(text);
}

/** Returns the milliseconds of a duration. Throws INVALID_REQUEST, which names the field, if it is not valid. */
export function durationMs(input: DurationInput, field: string): number {
  const parsed = parseDuration(input);
  if (parsed.ok) return parsed.ms;
  throw invalidRequest({ field, code: 'INVALID_DURATION', message: `${field}: ${parsed.message}` });
}

function parseSeconds(seconds: number): ParsedDuration {
  if (seconds < 0) return refuse('a duration cannot be negative');
  if (!Number.isInteger(seconds)) {
    return refuse('a number must be a whole number of seconds: write PT0.25S or 250ms for fractions');
  }
  return total(seconds * UNIT_MS.s);
}

function parseIso(text: string): ParsedDuration {
  const match = ISO_FORM.exec(text);
  if (!match || text.endsWith('P') || text.endsWith('T')) return refuse(`write a duration ${EXAMPLES}`);
  let ms = 0;
  let fractionSeen = false;
  for (const [index, unit] of ISO_UNITS.entries()) {
    const part = match[index + 1];
    if (part === undefined) continue;
    if (fractionSeen) return refuse('only the smallest part of a duration may have a fraction');
    fractionSeen = /[.,]/.test(part);
    ms += Number(part.replace(',', '.')) * UNIT_MS[unit];
  }
  return total(ms);
}

function total(ms: number): ParsedDuration {
  const rounded = Math.round(ms);
  if (!Number.isSafeInteger(rounded)) return refuse('the duration is too long');
  return { ok: true, ms: rounded };
}

function refuse(message: string): ParsedDuration {
  return { ok: false, message };
}

/** ISO 8601 with a fraction of a second where needed, to the microsecond. */
export function formatDuration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`${ms} is not a duration in milliseconds`);
  const days = Math.floor(ms / UNIT_MS.d);
  const hours = Math.floor((ms % UNIT_MS.d) / UNIT_MS.h);
  const minutes = Math.floor((ms % UNIT_MS.h) / UNIT_MS.m);
  const micros = Math.round((ms % UNIT_MS.m) * 1_000);
  const date = days > 0 ? `${days}D` : '';
  let time = (hours > 0 ? `${hours}H` : '') + (minutes > 0 ? `${minutes}M` : '');
  if (micros > 0 || (date === '' && time === '')) time += `${secondsText(micros)}S`;
  return time === '' ? `P${date}` : `P${date}T${time}`;
}

// Assembled from integers: a division would print small fractions in exponent notation.
function secondsText(micros: number): string {
  const fraction = String(micros % 1_000_000)
    .padStart(6, '0')
    .replace(/0+$/, '');
  const whole = Math.floor(micros / 1_000_000);
  return fraction === '' ? `${whole}` : `${whole}.${fraction}`;
}
