import { fingerprint } from '../../core/canonical-json.ts';
import { type AppError, invalidRequest } from '../../core/errors.ts';

/** A cursor belongs to one list of one org, read with these filters in this order. */
export type CursorScope = {
  readonly list: 'JOBS' | 'FAILURES' | 'WEBHOOKS' | 'DELIVERIES';
  readonly orgId: string;
  readonly filter: object;
  readonly order?: string;
};

const VERSION = 2;
const DIGEST_LENGTH = 24;

/**
 * A cursor contains a digest of its scope, so that cursors of other orgs or filters are refused. The digest needs no secret: a forged
 * cursor only moves the position inside a list that the caller may read anyway.
 */
export function writePageCursor(scope: CursorScope, position: readonly unknown[]): string {
  return Buffer.from(JSON.stringify([VERSION, digestOf(scope), ...position])).toString('base64url');
}

/** Returns the position for the caller to check, and throws if the cursor was made for another scope. */
export function readPageCursor(scope: CursorScope, cursor: string): unknown[] {
  const [version, digest, ...position] = decode(cursor);
  if (version !== VERSION || digest !== digestOf(scope)) throw invalidCursor();
  return position;
}

export function invalidCursor(): AppError {
  const message = 'cursor must come from the page before, read with the same filters and in the same order';
  return invalidRequest({ field: 'cursor', code: 'INVALID_CURSOR', message });
}

function decode(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}

function digestOf({ list, orgId, filter, order }: CursorScope): string {
  return fingerprint([list, orgId, normal(filter), order ?? null]).slice(0, DIGEST_LENGTH);
}

/** Filters with the same meaning get the same form: lists are sorted without duplicates, and an empty object is left out. */
function normal(value: unknown): unknown {
  if (Array.isArray(value)) return [...new Set(value)].sort();
  if (typeof value !== 'object' || value === null || value instanceof Date) return value ?? undefined;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const written = normal(member);
    return written === undefined ? [] : [[name, written] as const];
  });
  return members.length === 0 ? undefined : members.sort(([left], [right]) => (left < right ? -1 : 1));
}
