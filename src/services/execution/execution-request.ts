import type { AddressPolicy } from '../../core/address-policy.ts';
import type { Issue } from '../../core/errors.ts';
import { EXECUTION_TYPES, type ExecutionType, KINDS, WORK_KINDS, type WorkKind } from '../../core/execution/kinds.ts';
import { Issues } from '../../core/issues.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { FIELD_LIMITS, readText, readTimestamp, readUrl, readWord } from '../../core/submission-fields.ts';

/** A valid request to submit a job. */
export type ExecutionRequest = {
  readonly type: ExecutionType;
  /** Null: chosen at random. */
  readonly workKind: WorkKind | null;
  readonly executionAt: Date | null;
  readonly callback: string | null;
  readonly idempotencyKey: string | null;
};

export type ReadRequest =
  | { readonly ok: true; readonly request: ExecutionRequest }
  | { readonly ok: false; readonly kind: 'malformed' | 'invalid'; readonly issues: readonly Issue[] };

export type ReadRequestParams = {
  /** The header Idempotency-Key. A key in the body takes precedence. */
  readonly headerKey?: string;
  readonly allowedTypes: readonly ExecutionType[];
  /** Which addresses a callback may name in addition to public ones; without a policy, any. */
  readonly addresses?: AddressPolicy;
};

const MEMBERS = ['type', 'execution_at', 'callback', 'idempotency_key', 'work_kind'] as const;
const UTC = /(?:[Zz]|\+00:?00)\s*$/;

/** A body with a wrong type or without a required member is malformed. Any other refused body is invalid. */
export function readExecutionRequest(body: unknown, params: ReadRequestParams): ReadRequest {
  const malformed = findMalformed(body);
  if (malformed.length > 0) return { ok: false, kind: 'malformed', issues: malformed };
  const given = body as Readonly<Record<string, string | null | undefined>>;
  const issues = new Issues();
  refuseMembers(given, issues);
  const type = readType(given.type, params.allowedTypes, issues);
  const request = {
    type,
    workKind: given.work_kind == null ? null : readKind(given.work_kind, type, issues),
    executionAt: given.execution_at == null ? null : readTime(given.execution_at, type, issues),
    callback: given.callback == null ? null : readUrl(given.callback, { field: 'callback', addresses: params.addresses }, issues),
    idempotencyKey: readKey(given.idempotency_key ?? params.headerKey, issues),
  };
  if (issues.list.length > 0 || type === null) return { ok: false, kind: 'invalid', issues: issues.list };
  return { ok: true, request: { ...request, type } };
}

function findMalformed(body: unknown): readonly Issue[] {
  const issues = new Issues();
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    issues.add('body', 'INVALID_TYPE', 'must be a JSON object');
    return issues.list;
  }
  const given = body as Readonly<Record<string, unknown>>;
  for (const member of MEMBERS) {
    const value = given[member];
    if (value != null && typeof value !== 'string') issues.add(member, 'INVALID_TYPE', 'must be a string');
  }
  if (given.type == null) issues.add('type', 'REQUIRED', `is required: one of ${EXECUTION_TYPES.join(', ')}`);
  if (given.type === 'DEFERRED' && given.execution_at == null) {
    issues.add('execution_at', 'REQUIRED', 'is required for DEFERRED: give the time to run at, such as 2024-01-15T10:30:00Z');
  }
  return issues.list;
}

function refuseMembers(given: object, issues: Issues): void {
  for (const member of Object.keys(given)) {
    if (issues.isFull) return;
    if ((MEMBERS as readonly string[]).includes(member)) continue;
    if (member === 'job_id') issues.add(member, 'READ_ONLY_MEMBER', 'cannot be given: the system assigns it');
    else issues.add(member, 'UNKNOWN_MEMBER', `is not known${suggestion(member, MEMBERS)}`);
  }
}

function readType(value: unknown, allowed: readonly ExecutionType[], issues: Issues): ExecutionType | null {
  const type = readWord(value, { field: 'type', words: EXECUTION_TYPES }, issues);
  if (type === null || allowed.includes(type)) return type;
  issues.add('type', 'NOT_ALLOWED', `must be one of ${allowed.join(', ')}: this server does not accept ${type}`);
  return null;
}

function readKind(value: unknown, type: ExecutionType | null, issues: Issues): WorkKind | null {
  const kind = readWord(value, { field: 'work_kind', words: WORK_KINDS }, issues);
  if (kind === null) return null;
  const { expected, types } = KINDS[kind];
  if (expected === 'REJECTED') issues.add('work_kind', kind, 'is the kind that is always rejected: choose another');
  else if (type !== null && !types.includes(type)) {
    issues.add('work_kind', 'NOT_FOR_TYPE', `must match the type: ${kind} is only for ${types.join(', ')}`);
  } else return kind;
  return null;
}

function readTime(value: string, type: ExecutionType | null, issues: Issues): Date | null {
  if (type === 'EXECUTE') {
    issues.add('execution_at', 'NOT_ALLOWED', 'must be absent for EXECUTE, which runs immediately: use DEFERRED to run at a time');
    return null;
  }
  const date = readTimestamp(value, 'execution_at', issues);
  if (date === null || UTC.test(value)) return date;
  issues.add('execution_at', 'NOT_UTC', 'must be in UTC: end it with Z or +00:00');
  return null;
}

function readKey(value: string | null | undefined, issues: Issues): string | null {
  if (value == null) return null;
  return readText(value, { field: 'idempotency_key', max: FIELD_LIMITS.idempotencyKey, isName: true }, issues);
}
