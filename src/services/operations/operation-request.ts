import { AppError, invalidRequest } from '../../core/errors.ts';
import {
  actsOnDeadLetters,
  DEFAULT_HALT,
  DEFAULT_RATE,
  type HaltRule,
  MAX_CANARY,
  MAX_OPERATION_JOBS,
  MAX_RATE,
  OPERATION_ACTIONS,
  type OperationAction,
} from '../../core/governance/operation.ts';
import type { PatchStep } from '../../core/governance/payload-patch.ts';
import { Issues } from '../../core/issues.ts';
import { isRecord, membersOf, refuseUnknown } from '../../core/known-members.ts';
import { withinMember } from '../../core/member-issues.ts';
import type { JobState } from '../../core/states.ts';
import type { Correction } from '../../engine/operations/correct-payload.ts';
import type { JobFilter } from '../../ledger/search/search-jobs.ts';
import { readCorrection } from '../dead-letters/act-on-dead-letter.ts';
import { checkFilter, checkReason, type DeadLetterFilter } from '../dead-letters/dead-letter-request.ts';
import { RETRIABLE_STATES } from '../jobs/retry-many.ts';
import { checkSearch, hasNoCondition } from '../jobs/search-jobs.ts';

/** What a caller asks for. Exactly one of `filter` and `jobIds`. */
export type OperationRequest = {
  action: OperationAction;
  /** Of the dead letter for replay, discard and fix_forward; of jobs for retry and cancel. */
  filter?: DeadLetterFilter | JobFilter;
  jobIds?: readonly string[];
  /** For fix_forward: how to correct each payload. */
  patch?: readonly PatchStep[];
  /** For fix_forward: the payload of all new jobs. */
  payload?: unknown;
  /** How many jobs to send first. The others follow when these have ended. Default: 0. */
  canary?: number;
  /** Jobs a second. Default: 100. */
  rate?: number;
  /** When to halt. Default: at 20 % failures after 20 jobs if there is a canary, never otherwise. */
  halt?: { failureRate?: number; after?: number };
  reason?: string | null;
};

/** A request that can be carried out. */
export type ReadRequest = {
  readonly action: OperationAction;
  readonly target:
    | { readonly kind: 'entries'; readonly filter: DeadLetterFilter }
    | { readonly kind: 'jobs'; readonly filter: JobFilter }
    | { readonly kind: 'named'; readonly jobIds: readonly string[] };
  readonly correction: Correction | null;
  readonly canary: number;
  readonly rate: number;
  readonly halt: HaltRule | null;
  readonly reason: string | null;
};

const MEMBERS = membersOf<OperationRequest>({
  action: true,
  filter: true,
  jobIds: true,
  patch: true,
  payload: true,
  canary: true,
  rate: true,
  halt: true,
  reason: true,
});

const LIVE_STATES = ['pending', 'delayed', 'scheduled', 'running', 'retrying'] as const satisfies readonly JobState[];

/** Throws INVALID_REQUEST for a request that cannot be carried out. */
export function readOperationRequest(request: OperationRequest): ReadRequest {
  const issues = new Issues();
  if (!isRecord(request)) issues.add('operation', 'INVALID_TYPE', 'must be an object');
  issues.throwIfAny();
  refuseUnknown(request, MEMBERS, issues);
  const { action, canary = 0, rate = DEFAULT_RATE, reason = null } = request;
  if (!(OPERATION_ACTIONS as readonly unknown[]).includes(action))
    issues.add('action', 'INVALID_VALUE', `must be one of ${OPERATION_ACTIONS.join(', ')}`);
  if (!Number.isInteger(canary) || canary < 0 || canary > MAX_CANARY)
    issues.add('canary', 'OUT_OF_RANGE', `must be an integer from 0 to ${MAX_CANARY}`);
  if (!Number.isFinite(rate) || rate < 0.01 || rate > MAX_RATE)
    issues.add('rate', 'OUT_OF_RANGE', `must be a number from 0.01 to ${MAX_RATE}`);
  issues.throwIfAny();
  checkReason(reason);
  return { action, target: readTarget(request), correction: correctionOf(request), canary, rate, halt: readHalt(request), reason };
}

function readHalt({ halt, canary = 0 }: OperationRequest): HaltRule | null {
  if (halt === undefined) return canary > 0 ? DEFAULT_HALT : null;
  const issues = new Issues();
  const { failureRate = DEFAULT_HALT.failureRate, after = DEFAULT_HALT.after } = isRecord(halt) ? halt : {};
  if (!isRecord(halt)) issues.add('halt', 'INVALID_TYPE', 'must be an object');
  if (!(failureRate >= 0 && failureRate <= 1)) issues.add('halt.failureRate', 'OUT_OF_RANGE', 'must be a number from 0 to 1');
  if (!Number.isInteger(after) || after < 1 || after > 1_000_000)
    issues.add('halt.after', 'OUT_OF_RANGE', 'must be an integer from 1 to 1000000');
  issues.throwIfAny();
  return { failureRate, after };
}

function correctionOf({ action, patch, payload }: OperationRequest): Correction | null {
  if (action === 'fix_forward') return readCorrection({ patch, payload });
  if (patch === undefined && payload === undefined) return null;
  throw invalidRequest({
    field: patch === undefined ? 'payload' : 'patch',
    code: 'INVALID_VALUE',
    message: 'patch and payload are for the action fix_forward only',
  });
}

function readTarget({ action, filter, jobIds }: OperationRequest): ReadRequest['target'] {
  if ((filter === undefined) === (jobIds === undefined))
    throw invalidRequest({ field: 'filter', code: 'INVALID_VALUE', message: 'Send either filter or jobIds, and not both.' });
  if (jobIds !== undefined) return { kind: 'named', jobIds: readIds(jobIds) };
  if (actsOnDeadLetters(action)) return { kind: 'entries', filter: readEntryFilter(filter as DeadLetterFilter) };
  return { kind: 'jobs', filter: readJobFilter(action, filter as JobFilter) };
}

const MAX_ID = 100;

function readIds(jobIds: readonly string[]): string[] {
  const isList = Array.isArray(jobIds) && jobIds.length > 0 && jobIds.length <= MAX_OPERATION_JOBS;
  const isText = (id: unknown) => typeof id === 'string' && id.length <= MAX_ID && !id.includes('\0');
  if (isList && jobIds.every(isText)) return [...new Set(jobIds.map((id) => id.toLowerCase()))];
  const message = `jobIds must be a list of 1 to ${MAX_OPERATION_JOBS} job ids. For more jobs, use a filter.`;
  throw invalidRequest({ field: 'jobIds', code: 'INVALID_VALUE', message });
}

function readEntryFilter(filter: DeadLetterFilter): DeadLetterFilter {
  withinMember('filter', () => checkFilter(filter));
  const { status = 'open', ...rest } = filter;
  if (status === 'open') return rest;
  throw invalidRequest({
    field: 'filter.status',
    code: 'INVALID_VALUE',
    message: 'An operation acts on open entries only. Leave out the status.',
  });
}

function readJobFilter(action: OperationAction, filter: JobFilter): JobFilter {
  withinMember('filter', () => checkSearch(filter));
  if (hasNoCondition(filter))
    throw invalidRequest({
      field: 'filter',
      code: 'INVALID_VALUE',
      message: 'The filter matches every job. Name a type, a state, a tag or a time.',
    });
  const possible: readonly JobState[] = action === 'retry' ? RETRIABLE_STATES : LIVE_STATES;
  const states = filter.states ?? possible;
  const wrong = states.find((state) => !possible.includes(state));
  if (wrong === undefined) return { ...filter, states };
  const message = `The action ${action} cannot change jobs that are ${wrong}. Use the states ${possible.join(', ')}.`;
  throw invalidRequest({ field: 'filter.states', code: 'INVALID_VALUE', message });
}

export const noSuchOperation = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `The operation ${String(id).slice(0, 100)} does not exist.` });
