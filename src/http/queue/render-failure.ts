import type { Static } from 'typebox';
import { dictionary, lookUp } from '../../core/dictionary.ts';
import type { Failure } from '../../core/failure.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { FailureDetails as Details } from '../../services/jobs/inspect-failure.ts';
import type { FoundFailures } from '../../services/jobs/search-failures.ts';
import { renderFailure, type Sight } from './render.ts';
import type { AttemptInfo, FailureDetails, FailureInfo, FailureSearchResult } from './schemas/failure.ts';
import { CATEGORY_WORDS, STATE_WORDS } from './words.ts';

type Attempt = NonNullable<Details['attempts']>[number];
type Occurrence = Pick<Attempt, 'attempt' | 'workerId' | 'host'> & { timestamp: Date; durationMs: number };

export function renderDetails(details: Details, sight: Sight): Static<typeof FailureDetails> {
  const { finalState, attempts } = details;
  const body = {
    job_id: details.jobId,
    type: details.type,
    final_state: finalState === null ? null : STATE_WORDS[finalState],
    total_attempts: details.totalAttempts,
    failure: renderInfo(details.failure, details.failure, sight),
  };
  return attempts === undefined ? body : { ...body, attempts: attempts.flatMap((each) => renderAttempt(each, sight)) };
}

function renderInfo(failure: Failure, at: Occurrence, sight: Sight): Static<typeof FailureInfo> {
  return {
    ...renderFailure(failure, sight),
    attempt: at.attempt,
    timestamp: formatTimestamp(at.timestamp),
    duration_ms: at.durationMs,
    context: { ...failure.context },
    worker_id: at.workerId,
    host: at.host,
  };
}

/** An attempt that still runs has no result yet and is left out. */
function renderAttempt(attempt: Attempt, sight: Sight): Static<typeof AttemptInfo>[] {
  const { startedAt, finishedAt, result, failure } = attempt;
  if (finishedAt === null || result === null) return [];
  const info = {
    attempt: attempt.attempt,
    started_at: formatTimestamp(startedAt),
    finished_at: formatTimestamp(finishedAt),
    result,
  };
  if (failure === null) return [info];
  const at = { ...attempt, timestamp: finishedAt, durationMs: Math.max(0, finishedAt.getTime() - startedAt.getTime()) };
  return [{ ...info, failure: renderInfo(failure, at, sight) }];
}

export function renderFailures(found: FoundFailures, sight: Sight): Static<typeof FailureSearchResult> {
  return {
    failures: found.failures.map((each) => renderDetails(each, sight)),
    total_count: found.totalCount,
    total_is_estimate: found.totalIsEstimate,
    next_cursor: found.nextCursor,
    by_category: renderCategories(found.byCategory),
    by_code: found.byCode,
    by_type: found.byType,
  };
}

/** Categories that share a word share a number. */
function renderCategories(byCategory: FoundFailures['byCategory']): Record<string, number> {
  const shown = new Map<string, number>();
  for (const [category, count] of Object.entries(byCategory)) {
    const name = lookUp<string>(CATEGORY_WORDS, category) ?? category;
    shown.set(name, (shown.get(name) ?? 0) + count);
  }
  return dictionary(shown);
}
