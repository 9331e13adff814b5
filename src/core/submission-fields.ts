import type { AddressPolicy } from './address-policy.ts';
import { breadthIssue, DEFAULT_DEPENDENCY_TYPE, DEPENDENCY_TYPES, type DependencyType, MAX_BREADTH } from './dependencies.ts';
import { dictionary, lookUp } from './dictionary.ts';
import { parseDuration } from './duration.ts';
import { isUuid } from './ids.ts';
import type { Issues } from './issues.ts';
import { suggestion } from './nearest-name.ts';
import { isPlainObject } from './plain-json.ts';
import { RESERVED_NAMES, refuseReservedName } from './reserved-names.ts';
import { readTargetUrl, type UrlRefusal } from './target-url.ts';
import { parseTimestamp } from './timestamp.ts';

/** Lengths are in characters, as PostgreSQL counts them. */
export const FIELD_LIMITS = {
  type: 100,
  queue: 100,
  idempotencyKey: 256,
  correlationId: 256,
  callbackUrl: 2_048,
  reason: 1_000,
  tags: 50,
  tagName: 128,
  tagValue: 256,
  progressMessageBytes: 1_024,
  logFieldsBytes: 16_384,
} as const;

export const DEFAULT_QUEUE = 'q:default';
export const CRITICAL_QUEUE = 'q:critical';
export const DEAD_LETTER_QUEUE = 'q:deadletter';

/** The queues that exist without configuration. */
export const STANDING_QUEUES: readonly string[] = [
  CRITICAL_QUEUE,
  DEFAULT_QUEUE,
  'q:notifications',
  'q:planning',
  'q:exports',
  'q:maintenance',
];

/** The existing queues, for callers that may not create one. */
export interface QueueNames {
  has(name: string): boolean;
  list(): readonly string[];
}

const MOST_LISTED = 20;

const QUEUE_NAME = /^[a-z0-9:_.-]{1,100}$/;
/** The control characters of ASCII. Those above it are allowed. */
const CONTROL = /[^\P{Cc}\u0080-\u009f]/u;

interface TextParams {
  readonly field: string;
  readonly max: number;
  /** A name must not contain control characters; a key may. */
  readonly isName?: boolean;
}

/** Reads a non-empty string that PostgreSQL can store. Adds an issue and returns null for anything else. */
export function readText(value: unknown, { field, max, isName = false }: TextParams, issues: Issues): string | null {
  if (typeof value !== 'string') issues.add(field, 'INVALID_TYPE', 'must be a string');
  else if (value === '') issues.add(field, 'TOO_SHORT', 'must not be empty');
  else if (value.length > max && lengthOf(value) > max) issues.add(field, 'TOO_LONG', `must have at most ${max} characters`);
  else if (isName ? CONTROL.test(value) : value.includes('\0')) {
    issues.add(field, 'INVALID_TEXT', 'must not contain control characters');
  } else if (!value.isWellFormed()) issues.add(field, 'INVALID_TEXT', 'must be valid Unicode');
  else return value;
  return null;
}

export function readTypeName(value: unknown, issues: Issues): string | null {
  refuseReservedName(value, 'type', issues);
  return readText(value, { field: 'type', max: FIELD_LIMITS.type, isName: true }, issues);
}

function lengthOf(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

export function readWord<const Word extends string>(
  value: unknown,
  { field, words }: { readonly field: string; readonly words: readonly Word[] },
  issues: Issues,
): Word | null {
  if (typeof value === 'string' && (words as readonly string[]).includes(value)) return value as Word;
  const hint = typeof value === 'string' ? suggestion(value, words) : '';
  issues.add(field, 'INVALID_VALUE', `must be one of ${words.join(', ')}${hint}`);
  return null;
}

export function readDuration(value: unknown, field: string, issues: Issues): number | null {
  const parsed = parseDuration(value as string);
  if (parsed.ok) return parsed.ms;
  issues.add(field, 'INVALID_DURATION', `is not a duration: ${parsed.message}`);
  return null;
}

export function readTimestamp(value: unknown, field: string, issues: Issues): Date | null {
  const parsed = parseTimestamp(value as string);
  if (parsed.ok) return parsed.date;
  issues.add(field, 'INVALID_TIMESTAMP', `is not a timestamp: ${parsed.message}`);
  return null;
}

/** Without `known` every valid name is accepted. */
export function readQueue(value: unknown, known: QueueNames | undefined, issues: Issues): string {
  if (typeof value !== 'string' || !QUEUE_NAME.test(value)) {
    issues.add('queue', 'INVALID_VALUE', 'must be 1 to 100 characters from a-z, 0-9 and : _ . -');
  } else if (RESERVED_NAMES.has(value)) {
    refuseReservedName(value, 'queue', issues);
  } else if (value === DEAD_LETTER_QUEUE) {
    issues.add('queue', 'INVALID_VALUE', `must not be ${DEAD_LETTER_QUEUE}: only failed jobs enter that queue`);
  } else if (known !== undefined && !STANDING_QUEUES.includes(value) && !known.has(value)) {
    issues.add('queue', 'UNKNOWN_QUEUE', unknownQueue(value, known.list()));
  } else return value;
  return DEFAULT_QUEUE;
}

function unknownQueue(given: string, known: readonly string[]): string {
  const names = [...new Set([...STANDING_QUEUES, ...known])];
  const more = names.length > MOST_LISTED ? ` and ${names.length - MOST_LISTED} more` : '';
  const listed = `${names.slice(0, MOST_LISTED).join(', ')}${more}`;
  const remedy = 'an operator can add a queue with a section [queues."name"] in the configuration, or with queues.configure';
  return `must be one of ${listed}${suggestion(given, names)}; ${remedy}`;
}

export function readTags(value: unknown, issues: Issues): Record<string, string> | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !isPlainObject(value)) {
    issues.add('tags', 'INVALID_TYPE', 'must be a plain object of strings');
    return null;
  }
  const names = Object.keys(value);
  if (names.length > FIELD_LIMITS.tags) {
    issues.add('tags', 'TOO_MANY', `must have at most ${FIELD_LIMITS.tags} entries`);
    return null;
  }
  const tags = dictionary<string>(Object.entries(value));
  for (const name of names) {
    const text = lookUp(tags, name);
    const field = `tags.${name.slice(0, FIELD_LIMITS.tagName)}`;
    readText(name, { field, max: FIELD_LIMITS.tagName }, issues);
    refuseReservedName(name, field, issues);
    if (text !== '') readText(text, { field, max: FIELD_LIMITS.tagValue }, issues);
  }
  return tags;
}

export function readDependencies(value: unknown, issues: Issues): string[] {
  if (!Array.isArray(value)) {
    issues.add('dependsOn', 'INVALID_TYPE', 'must be a list of job ids');
    return [];
  }
  const ids = new Set<string>();
  for (const [index, id] of value.entries()) {
    if (isUuid(id)) ids.add(id.toLowerCase());
    else issues.add(`dependsOn[${index}]`, 'INVALID_ID', 'must be a job id');
    if (issues.isFull || ids.size > MAX_BREADTH) break;
  }
  if (ids.size > MAX_BREADTH) issues.include(breadthIssue());
  return [...ids];
}

export function readDependencyType(value: unknown, issues: Issues): DependencyType {
  if (value == null) return DEFAULT_DEPENDENCY_TYPE;
  return readWord(value, { field: 'dependencyType', words: DEPENDENCY_TYPES }, issues) ?? DEFAULT_DEPENDENCY_TYPE;
}

/** Without a policy every http or https URL is accepted. A policy is checked as far as possible without DNS. */
export function readUrl(
  value: unknown,
  { field, addresses }: { readonly field: string; readonly addresses: AddressPolicy | undefined },
  issues: Issues,
): string | null {
  const text = readText(value, { field, max: FIELD_LIMITS.callbackUrl, isName: true }, issues);
  if (text === null) return null;
  if (addresses === undefined) {
    const protocol = URL.parse(text)?.protocol;
    if (protocol === 'http:' || protocol === 'https:') return text;
    issues.add(field, 'INVALID_URL', 'must be an absolute http or https URL');
    return null;
  }
  const read = readTargetUrl(text, addresses);
  if (read.ok) return text;
  addUrlRefusal(field, read.refusal, issues);
  return null;
}

export function addUrlRefusal(field: string, { code, message }: UrlRefusal, issues: Issues): void {
  issues.add(field, code === 'ADDRESS' ? 'FORBIDDEN_ADDRESS' : 'INVALID_URL', `is refused: ${message}`);
}
