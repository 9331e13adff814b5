import { fingerprint } from '../../core/canonical-json.ts';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import type { Seal } from './seal.ts';

/** A cursor belongs to one list of one org, read with these filters in this order. */
export type CursorScope = {
  readonly list:
    | 'JOBS'
    | 'FAILURES'
    | 'DEAD_LETTERS'
    | 'OPERATIONS'
    | 'OPERATION_ITEMS'
    | 'LOGS'
    | 'WEBHOOKS'
    | 'DELIVERIES'
    | 'SCHEDULES'
    | 'INGEST_JOBS'
    | 'INGEST_RESOURCES'
    | 'DOWNLOAD_HOSTS'
    | 'BATCH_FAILURES'
    | 'ORGS'
    | 'PROJECTS'
    | 'API_KEYS'
    | 'QUEUES'
    | 'JOB_TYPES'
    | 'WORKERS'
    | 'AUDIT'
    | 'ALERTS'
    | 'ARTIFACTS';
  readonly orgId: string;
  readonly filter: object;
  readonly order?: string;
};

/** A cursor of another list, org or filter is refused, and so is one that a client made itself. */
export function writePageCursor(seal: Seal, scope: CursorScope, position: readonly unknown[]): string {
  return seal.close(nameOf(scope), JSON.stringify(position));
}

/** Returns the position for the caller to check, and throws if the cursor was made for another scope. */
export function readPageCursor(seal: Seal, scope: CursorScope, cursor: string): unknown[] {
  const position = seal.open(nameOf(scope), cursor);
  if (position === null) throw invalidCursor();
  return JSON.parse(position) as unknown[];
}

export function invalidCursor(): AppError {
  const message = 'cursor must come from the page before, read with the same filters and in the same order';
  return invalidRequest({ field: 'cursor', code: 'INVALID_CURSOR', message });
}

function nameOf({ list, orgId, filter, order }: CursorScope): string {
  return fingerprint([list, orgId, normal(filter), order ?? null]);
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
