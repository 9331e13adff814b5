import { createHash } from 'node:crypto';
import { AppError } from './errors.ts';

/** RFC 8785: members in UTF-16 order, no white space, numbers as ECMAScript prints them. */
export function canonicalJson(value: unknown): string {
  const text = write(value, new Set());
  if (text === undefined) throw unserializable('undefined, functions and symbols have no JSON form: remove the value, or use null');
  return text;
}

/** SHA-256 of the canonical form, in hex. */
export function fingerprint(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

function write(value: unknown, ancestors: Set<object>): string | undefined {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw unserializable('a string contains half of a surrogate pair: send it as bytes');
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw unserializable(`${value} has no JSON form: use a finite number or null`);
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'bigint':
      throw unserializable('a bigint has no JSON form: write it as a string');
    case 'object':
      return value === null ? 'null' : writeObject(value, ancestors);
    default:
      return undefined;
  }
}

function writeObject(value: object, ancestors: Set<object>): string | undefined {
  if (ancestors.has(value)) throw unserializable('the value contains itself: remove the cycle');
  ancestors.add(value);
  const text = 'toJSON' in value && typeof value.toJSON === 'function' ? write(value.toJSON(), ancestors) : members(value, ancestors);
  ancestors.delete(value);
  return text;
}

function members(value: object, ancestors: Set<object>): string {
  if (Array.isArray(value)) return `[${value.map((item) => write(item, ancestors) ?? 'null').join(',')}]`;
  const parts: string[] = [];
  // The default sort compares UTF-16 code units, as the RFC requires.
  for (const name of Object.keys(value).sort()) {
    const text = write((value as Record<string, unknown>)[name], ancestors);
    if (text !== undefined) parts.push(`${write(name, ancestors)}:${text}`);
  }
  return `{${parts.join(',')}}`;
}

function unserializable(message: string): AppError {
  return new AppError('NOT_SERIALIZABLE', { message });
}
