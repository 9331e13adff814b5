import { isStorable } from './bounded-text.ts';
import type { Issue } from './errors.ts';

// JSON.stringify changes many values without a word: a Map becomes {}, NaN becomes null, and a Date comes back as a string. Jobs accept
// only values that come back as they were given (decision 0043). The check costs little: for the payload of the bench, an object of four
// members, it takes 0.1 us. JSON.stringify takes 0.15 us, and 0.5 us with a replacer that does nothing but look at numbers.

/**
 * Whether JSON brings the value back as it is. Call it after JSON.stringify has accepted the value, so that it contains no cycle. A
 * member that is undefined counts as absent.
 */
export function isPlainJson(value: unknown): boolean {
  if (typeof value === 'string') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return typeof value === 'boolean';
  if (value === null) return true;
  if (Array.isArray(value)) return isPlainArray(value);
  return isPlainObject(value) && hasPlainMembers(value);
}

// Both loops go by index, which is fast, and sees the holes of an array as undefined.

function isPlainArray(items: readonly unknown[]): boolean {
  for (let index = 0; index < items.length; index++) if (!isPlainJson(items[index])) return false;
  return true;
}

function hasPlainMembers(value: object): boolean {
  const members: readonly unknown[] = Object.values(value);
  for (let index = 0; index < members.length; index++) {
    const member = members[index];
    if (member !== undefined && !isPlainJson(member)) return false;
  }
  return true;
}

/** Whether the object has no class. Objects of another realm, such as those of a test runner, have a prototype of their own. */
export function isPlainObject(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

export interface Place {
  /** The name of the whole value: `payload`. */
  readonly field: string;
  /** Whether PostgreSQL stores the value as text. It then cannot contain a NUL character or half of a surrogate pair. */
  readonly isText: boolean;
}

/** The first part of a value that JSON does not bring back, with its path. Null if there is none. */
export function findNotPlain(value: unknown, { field, isText }: Place): Issue | null {
  return find(value, { path: field, isText, ancestors: new Set() });
}

type At = { readonly path: string; readonly isText: boolean; readonly ancestors: Set<object> };

function find(value: unknown, at: At): Issue | null {
  if (typeof value === 'string') return !at.isText || isStorable(value) ? null : unstorable(at.path);
  if (typeof value === 'number') return Number.isFinite(value) ? null : lossy(at.path, `is ${value}; pass a finite number or null`);
  if (typeof value === 'boolean' || value === null) return null;
  if (typeof value !== 'object') return lossy(at.path, PRIMITIVES[typeof value as keyof typeof PRIMITIVES]);
  if (at.ancestors.has(value)) return lossy(at.path, 'contains itself; remove the cycle');
  if (!Array.isArray(value) && !isPlainObject(value)) return lossy(at.path, objectAdvice(value));
  at.ancestors.add(value);
  const found = Array.isArray(value) ? findInItems(value, at) : findInMembers(value, at);
  at.ancestors.delete(value);
  return found;
}

function findInItems(items: readonly unknown[], at: At): Issue | null {
  for (let index = 0; index < items.length; index++) {
    const found = find(items[index], { ...at, path: `${at.path}[${index}]` });
    if (found !== null) return found;
  }
  return null;
}

function findInMembers(value: object, at: At): Issue | null {
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    if (at.isText && !isStorable(name)) return unstorable(`the name of a member of ${at.path}`, at.path);
    const found = find(member, { ...at, path: pathOf(at.path, name) });
    if (found !== null) return found;
  }
  return null;
}

const PRIMITIVES = {
  undefined: 'is undefined; pass null, or leave it out',
  bigint: 'is a BigInt; pass a string',
  function: 'is a function; pass only data',
  symbol: 'is a symbol; pass a string',
} as const;

const BYTES = 'pass a base64 string, or pass the bytes as the whole value';

function objectAdvice(value: object): string {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `is ${named(value)}; ${BYTES}`;
  if (value instanceof Date) return 'is a Date; pass an ISO string such as date.toISOString()';
  if (value instanceof Map) return 'is a Map; pass Object.fromEntries(map) or an array';
  if (value instanceof Set) return 'is a Set; pass [...set]';
  if (value instanceof Error) return 'is an Error; pass its message';
  if ('toJSON' in value && typeof value.toJSON === 'function') return `is ${named(value)}; pass what its toJSON() returns`;
  return `is ${named(value)}; pass a plain object, such as { ...value }`;
}

/** `a URL`, `an Order`: the class of the object. */
function named(value: object): string {
  const made: unknown = value.constructor;
  const name = typeof made === 'function' && made.name !== '' ? made.name.slice(0, 50) : 'class instance';
  return `${/^[AEIOaeio]/.test(name) ? 'an' : 'a'} ${name}`;
}

const NAME = /^[A-Za-z_$][\w$]*$/;
/** Callers choose the names of members. Longer paths are cut. */
const MAX_PATH = 200;

const pathOf = (path: string, name: string): string => (NAME.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`);

const lossy = (path: string, advice: string): Issue => issueOf('NOT_SERIALIZABLE', path, advice);

const unstorable = (what: string, path = what): Issue =>
  issueOf('INVALID_TEXT', what, 'contains a NUL character or half of a surrogate pair; remove it, or pass the value as bytes', path);

function issueOf(code: string, what: string, advice: string, path = what): Issue {
  const shown = what.length > MAX_PATH ? `${what.slice(0, MAX_PATH)}…` : what;
  return { field: path.slice(0, MAX_PATH), code, message: `${shown} ${advice}` };
}
