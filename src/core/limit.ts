import { type DurationInput, formatDuration, parseDuration } from './duration.ts';
import type { Issues } from './issues.ts';
import { isRecord, membersOf, refuseUnknown } from './known-members.ts';
import { decodePayload, type Payload } from './payload.ts';
import { readText } from './submission-fields.ts';

/** A limit as callers give it: how many jobs with the key run at the same time, or start within a time, or both. */
export interface LimitSubmission {
  /** Jobs of the org with the same key share the limit. */
  readonly key: string;
  /** How many jobs with the key run at the same time. */
  readonly concurrency?: number | null;
  /** How many jobs with the key start within `per`. */
  readonly rate?: number | null;
  /** The time of the rate: from one second to 24 hours. */
  readonly per?: DurationInput | null;
}

/** A limit that was read. In the limit of a type or a queue, the key may contain placeholders. */
export interface JobLimit {
  /** Jobs of the org with the same key share the limit. */
  readonly key: string;
  /** How many jobs with the key run at the same time; null without a bound. */
  readonly concurrency: number | null;
  /** How many jobs with the key start within the time; null without a bound. */
  readonly rate: number | null;
  /** The time of the rate in milliseconds. */
  readonly perMs: number | null;
}

export const MAX_LIMIT_KEY = 256;
/** The most jobs that a limit may allow at the same time or within its time. */
export const MOST_LIMITED = 10_000;
const SHORTEST_PER_MS = 1_000;
const LONGEST_PER_MS = 86_400_000;

const MEMBERS = membersOf<LimitSubmission>({ key: true, concurrency: true, rate: true, per: true });
const PLACEHOLDER = /\{payload((?:\.[^.{}]+)+)\}/g;

type ReadOptions = {
  /** Whether the key may contain placeholders, which are filled in for each job. */
  readonly isTemplate?: boolean;
  readonly field?: string;
};

/** Adds issues and returns null for a limit that is not valid. */
export function readLimit(given: unknown, issues: Issues, { isTemplate = false, field = 'limit' }: ReadOptions = {}): JobLimit | null {
  if (!isRecord(given)) {
    issues.add(field, 'INVALID_TYPE', `must be an object, such as { key: 'mail', concurrency: 3 } or { key: 'mail', rate: 5, per: '1s' }`);
    return null;
  }
  const before = issues.list.length;
  refuseUnknown(given, MEMBERS, issues, `${field}.`);
  const { key, concurrency, rate, per } = given as Record<string, unknown>;
  const limit = {
    key: key == null ? missingKey(field, issues) : readText(key, { field: `${field}.key`, max: MAX_LIMIT_KEY }, issues),
    concurrency: readCount(concurrency, `${field}.concurrency`, issues),
    rate: readCount(rate, `${field}.rate`, issues),
    perMs: readPer(per, `${field}.per`, issues),
  };
  if (concurrency == null && rate == null) {
    issues.add(field, 'REQUIRED', 'must have a member concurrency, or the members rate and per, or all three');
  }
  if (rate != null && per == null)
    issues.add(`${field}.per`, 'REQUIRED', `is required with ${field}.rate: the time within which so many jobs may start, such as 1s`);
  if (rate == null && per != null)
    issues.add(`${field}.rate`, 'REQUIRED', `is required with ${field}.per: how many jobs may start within that time`);
  if (isTemplate && limit.key !== null) checkTemplate(limit.key, `${field}.key`, issues);
  return issues.list.length > before || limit.key === null ? null : { ...limit, key: limit.key };
}

function missingKey(field: string, issues: Issues): null {
  issues.add(`${field}.key`, 'REQUIRED', 'is required: jobs with the same key share the limit');
  return null;
}

function readCount(value: unknown, field: string, issues: Issues): number | null {
  if (value == null) return null;
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MOST_LIMITED) return value as number;
  issues.add(field, 'OUT_OF_RANGE', `must be an integer from 1 to ${MOST_LIMITED}`);
  return null;
}

function readPer(value: unknown, field: string, issues: Issues): number | null {
  if (value == null) return null;
  const parsed = parseDuration(value as DurationInput);
  if (!parsed.ok) issues.add(field, 'INVALID_DURATION', `is not valid: ${parsed.message}`);
  else if (parsed.ms < SHORTEST_PER_MS || parsed.ms > LONGEST_PER_MS) issues.add(field, 'OUT_OF_RANGE', 'must be from 1s to 24h');
  else return parsed.ms;
  return null;
}

function checkTemplate(key: string, field: string, issues: Issues): void {
  if (/[{}]/.test(key.replaceAll(PLACEHOLDER, ''))) {
    issues.add(field, 'INVALID_VALUE', 'may contain braces only in placeholders for members of the payload, such as {payload.customer.id}');
  }
}

type FillParams = { readonly payload: Payload; readonly source: string };

/** Fills in the placeholders of a key. `source` says whose limit it is. Adds issues and returns null if the payload does not fit. */
export function fillLimit(limit: JobLimit, { payload, source }: FillParams, issues: Issues): JobLimit | null {
  if (!limit.key.includes('{')) return limit;
  const before = issues.list.length;
  const value = payload.kind === 'json' ? decodePayload(payload) : null;
  const key = limit.key.replaceAll(PLACEHOLDER, (_, path: string) => filled(value, path.slice(1).split('.'), source, issues));
  if (issues.list.length > before) return null;
  const checked = readText(key, { field: 'limit.key', max: MAX_LIMIT_KEY }, issues);
  return checked === null ? null : { ...limit, key: checked };
}

function filled(payload: unknown, path: readonly string[], source: string, issues: Issues): string {
  let value = payload;
  for (const name of path)
    value = typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? memberOf(value, name) : undefined;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return String(value);
  const why = `the key of the limit of ${source} contains it`;
  issues.add(['payload', ...path].join('.'), 'REQUIRED', `must be a string, a number or a boolean: ${why}`);
  return '';
}

const memberOf = (value: object, name: string): unknown => Reflect.get(value, name);

/** One phrase for people: `3 at the same time and 10 per 1s`. */
export function describeLimit({ concurrency, rate, perMs }: Omit<JobLimit, 'key'>): string {
  const parts = [
    ...(concurrency === null ? [] : [`${concurrency} at the same time`]),
    ...(rate === null || perMs === null ? [] : [`${rate} starts per ${formatDuration(perMs)}`]),
  ];
  return parts.join(' and ');
}

export const sameNumbers = (a: JobLimit, b: JobLimit): boolean =>
  a.concurrency === b.concurrency && a.rate === b.rate && a.perMs === b.perMs;

/** The limit as a caller would give it. */
export const submittedLimit = ({ key, concurrency, rate, perMs }: JobLimit): LimitSubmission => ({
  key,
  concurrency,
  rate,
  per: perMs === null ? null : `${perMs}ms`,
});
