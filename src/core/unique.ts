import { type DurationInput, formatDuration } from './duration.ts';
import type { Issues } from './issues.ts';
import { isRecord, membersOf, refuseUnknown } from './known-members.ts';
import { readDuration, readText, readWord } from './submission-fields.ts';

export const UNIQUE_UNTIL = ['started', 'finished'] as const;
/** Until when a job keeps others with its key away. */
export type UniqueUntil = (typeof UNIQUE_UNTIL)[number];

export const ON_CONFLICT = ['skip', 'replace', 'replace_payload'] as const;
/** What a submission does while another job has its key. */
export type OnConflict = (typeof ON_CONFLICT)[number];

export const MAX_UNIQUE_KEY = 256;

/** One job with the key at a time, within the type, the org and the project. */
export interface UniqueSubmission {
  /** Submissions with the same key concern the same job. */
  readonly key: string;
  /** Until when the job keeps others away: until its attempt starts, or until it has ended. Default: finished. */
  readonly until?: UniqueUntil | null;
  /** What to do while there is such a job. Default: skip. */
  readonly onConflict?: OnConflict | null;
}

/** One job for many submissions with the key: it starts when none came for the time `delay`. */
export interface DebounceSubmission {
  /** Submissions with the same key move the start of the same job. */
  readonly key: string;
  /** The job starts this long after the newest submission. */
  readonly delay: DurationInput;
  /** The job starts at most this long after the first submission. Default: half the lifetime of the job. */
  readonly max?: DurationInput | null;
}

/** What a submission says about other jobs with its key. */
export type JobUnique =
  | { readonly key: string; readonly until: UniqueUntil; readonly onConflict: OnConflict }
  | {
      readonly key: string;
      readonly until: 'started';
      readonly onConflict: 'debounce';
      readonly delayMs: number;
      readonly maxMs: number | null;
    };

const UNIQUE_MEMBERS = membersOf<UniqueSubmission>({ key: true, until: true, onConflict: true });
const DEBOUNCE_MEMBERS = membersOf<DebounceSubmission>({ key: true, delay: true, max: true });

type Given = { readonly unique?: unknown; readonly debounce?: unknown; readonly delay?: unknown; readonly scheduledAt?: unknown };

/** Reads the members `unique` and `debounce`, of which a submission has one at most. Adds issues and returns null for what is not valid. */
export function readUnique({ unique, debounce, delay, scheduledAt }: Given, issues: Issues): JobUnique | null {
  if (debounce == null) return unique == null ? null : readUniqueMember(unique, issues);
  const others = [unique == null ? [] : 'unique', delay == null ? [] : 'delay', scheduledAt == null ? [] : 'scheduledAt'].flat();
  for (const other of others) issues.add('debounce', 'CONFLICTING_MEMBERS', `and ${other} cannot be combined: use one of them`);
  return readDebounce(debounce, issues);
}

function readUniqueMember(given: unknown, issues: Issues): JobUnique | null {
  if (!isRecord(given)) {
    issues.add('unique', 'INVALID_TYPE', `must be an object, such as { key: 'index-42', until: 'started' }`);
    return null;
  }
  refuseUnknown(given, UNIQUE_MEMBERS, issues, 'unique.');
  const { key: givenKey, until, onConflict } = given as Record<string, unknown>;
  const key = readKey(givenKey, 'unique.key', issues);
  const read = {
    until: until == null ? 'finished' : readWord(until, { field: 'unique.until', words: UNIQUE_UNTIL }, issues),
    onConflict: onConflict == null ? 'skip' : readWord(onConflict, { field: 'unique.onConflict', words: ON_CONFLICT }, issues),
  } as const;
  return key === null || read.until === null || read.onConflict === null ? null : { key, until: read.until, onConflict: read.onConflict };
}

function readDebounce(given: unknown, issues: Issues): JobUnique | null {
  if (!isRecord(given)) {
    issues.add('debounce', 'INVALID_TYPE', `must be an object, such as { key: 'index-42', delay: '5s' }`);
    return null;
  }
  refuseUnknown(given, DEBOUNCE_MEMBERS, issues, 'debounce.');
  const { key: givenKey, delay, max } = given as Record<string, unknown>;
  const key = readKey(givenKey, 'debounce.key', issues);
  const delayMs = readTime(delay, 'debounce.delay', issues);
  const maxMs = max == null ? null : readTime(max, 'debounce.max', issues);
  if (delayMs === null || key === null || (max != null && maxMs === null)) return null;
  if (maxMs !== null && maxMs < delayMs) issues.add('debounce.max', 'OUT_OF_RANGE', 'must not be shorter than debounce.delay');
  return { key, until: 'started', onConflict: 'debounce', delayMs, maxMs };
}

function readKey(key: unknown, field: string, issues: Issues): string | null {
  if (key != null) return readText(key, { field, max: MAX_UNIQUE_KEY }, issues);
  issues.add(field, 'REQUIRED', 'is required: it names the job that submissions share');
  return null;
}

function readTime(value: unknown, field: string, issues: Issues): number | null {
  if (value == null) {
    issues.add(field, 'REQUIRED', 'is required: the time without a further submission after which the job starts, such as 5s');
    return null;
  }
  const ms = readDuration(value, field, issues);
  if (ms === 0) issues.add(field, 'OUT_OF_RANGE', 'must be greater than zero');
  return ms === 0 ? null : ms;
}

/** Sets the latest start of a debounced job. It is at most half the lifetime unless the submission says more. */
export function withinLifetime(unique: JobUnique, lifetimeMs: number | null): JobUnique {
  if (unique.onConflict !== 'debounce' || unique.maxMs !== null || lifetimeMs === null) return unique;
  return { ...unique, maxMs: Math.max(unique.delayMs, Math.floor(lifetimeMs / 2)) };
}

/** Refuses a debounced job that could start after the end of its lifetime. */
export function checkDebounce(unique: JobUnique | null, lifetimeMs: number | null, issues: Issues): void {
  if (unique?.onConflict !== 'debounce' || lifetimeMs === null) return;
  const message = `must be less than the lifetime of the job, ${formatDuration(lifetimeMs)}: the job would end before it starts. Submit it with a longer lifetime`;
  if (unique.delayMs >= lifetimeMs) issues.add('debounce.delay', 'BEYOND_LIFETIME', message);
  else if (unique.maxMs !== null && unique.maxMs >= lifetimeMs) issues.add('debounce.max', 'BEYOND_LIFETIME', message);
}
