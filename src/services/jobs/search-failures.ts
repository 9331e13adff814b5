import { invalidRequest } from '../../core/errors.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import {
  type FailureFilter,
  type FailureTally,
  type FoundFailure,
  searchFailures as searchInLedger,
  tallyFailures,
} from '../../ledger/search/search-failures.ts';
import type { FailureDetails } from './inspect-failure.ts';

export type { FailureFilter };

export type FoundFailures = FailureTally & { failures: FailureDetails[]; nextCursor: string | null };

export type SearchFailuresParams = Owner & {
  filter?: FailureFilter;
  page?: { cursor?: string | null; limit?: number };
  signal?: AbortSignal;
};

const MAX_LIMIT = 1_000;
const DEFAULT_LIMIT = 100;

/** Returns a page of the jobs that are in a failed state now, the newest failure first, and counts of all of them. */
export async function searchFailures(engine: Engine, params: SearchFailuresParams): Promise<FoundFailures> {
  const { orgId, filter = {}, page = {}, signal } = params;
  const { limit = DEFAULT_LIMIT, cursor = null } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalidRequest({
      field: 'limit',
      code: 'OUT_OF_RANGE',
      message: `limit must be an integer from 1 to ${MAX_LIMIT}`,
    });
  return engine.searches.run(
    orgId,
    async (db) => {
      const { failures, nextCursor } = await searchInLedger(db, params, { filter, limit, cursor });
      const tally = await tallyFailures(db, params, { filter });
      return { ...tally, failures: failures.map(toDetails), nextCursor };
    },
    signal,
  );
}

function toDetails({ jobId, type, state, failure, failedAt, totalAttempts, attempt }: FoundFailure): FailureDetails {
  const endedAt = attempt?.finishedAt ?? null;
  return {
    jobId,
    type,
    finalState: state === 'retrying' ? null : state,
    totalAttempts,
    failure: {
      ...failure,
      attempt: attempt?.number ?? 0,
      timestamp: endedAt ?? failedAt,
      durationMs: attempt === null || endedAt === null ? 0 : Math.max(0, endedAt.getTime() - attempt.startedAt.getTime()),
      workerId: attempt?.workerName ?? null,
      host: attempt?.host ?? null,
    },
  };
}
