import { isStorable } from '../../core/bounded-text.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { MAX_REASON_LENGTH, type Requester } from '../../core/governance/audit-action.ts';
import { isDeadLetterStatus } from '../../core/governance/dead-letter.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { isRecord, membersOf, refuseUnknown } from '../../core/known-members.ts';
import type { DeadLetterFilter } from '../../ledger/dead-letters/read-entries.ts';

export type { DeadLetterFilter };

const FILTER_MEMBERS = membersOf<DeadLetterFilter>({
  type: true,
  queue: true,
  category: true,
  code: true,
  fingerprint: true,
  projectId: true,
  since: true,
  until: true,
  status: true,
});

const TEXTS = ['type', 'queue', 'category', 'code', 'fingerprint'] as const;
const MAX_TEXT = 500;

/** Throws INVALID_REQUEST for a filter that cannot be applied. */
export function checkFilter(filter: DeadLetterFilter): void {
  const issues = new Issues();
  if (!isRecord(filter)) issues.add('filter', 'INVALID_TYPE', 'must be an object');
  issues.throwIfAny();
  refuseUnknown(filter, FILTER_MEMBERS, issues);
  for (const name of TEXTS) {
    const text: unknown = filter[name];
    if (text === undefined) continue;
    if (typeof text !== 'string' || text.length > MAX_TEXT)
      issues.add(name, 'INVALID_TYPE', `must be a text of at most ${MAX_TEXT} characters`);
    else if (!isStorable(text)) issues.add(name, 'INVALID_TEXT', 'must be valid Unicode without the NUL character');
  }
  const { projectId, status, since, until } = filter;
  if (projectId !== undefined && !isUuid(projectId)) issues.add('projectId', 'INVALID_ID', 'must be the id of a project, which is a UUID');
  if (status !== undefined && status !== 'all' && !isDeadLetterStatus(status))
    issues.add('status', 'INVALID_VALUE', 'must be open, replayed, discarded, fixed_forward or all');
  for (const [name, at] of Object.entries({ since, until }) as [string, unknown][])
    if (at !== undefined && !(at instanceof Date && !Number.isNaN(at.getTime()))) issues.add(name, 'INVALID_TYPE', 'must be a valid Date');
  issues.throwIfAny();
}

/** The requester of a program that uses the library. */
export const LIBRARY: Requester = Object.freeze({ actor: 'system:library', requestId: null });

export function checkReason(reason: unknown): void {
  if (reason == null) return;
  const isText = typeof reason === 'string' && reason.length <= MAX_REASON_LENGTH && isStorable(reason);
  if (isText) return;
  throw invalidRequest({
    field: 'reason',
    code: 'INVALID_VALUE',
    message: `reason must be a text of at most ${MAX_REASON_LENGTH} characters without the NUL character`,
  });
}

const MAX_LIMIT = 1_000;

export function readPage({ limit = 100, cursor = null }: { limit?: number; cursor?: string | null }): {
  limit: number;
  cursor: string | null;
} {
  if (Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return { limit, cursor };
  throw invalidRequest({ field: 'limit', code: 'OUT_OF_RANGE', message: `limit must be an integer from 1 to ${MAX_LIMIT}` });
}

export const noSuchEntry = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `There is no dead letter of the job ${String(id).slice(0, 100)}.` });
