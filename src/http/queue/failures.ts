import { type Static, Type } from 'typebox';
import { dictionary, lookUp } from '../../core/dictionary.ts';
import { AppError } from '../../core/errors.ts';
import type { Failure } from '../../core/failure.ts';
import { publicContext } from '../../core/public-failure.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { type FailureDetails as Details, inspectFailure } from '../../services/jobs/inspect-failure.ts';
import { type PublicNames, publicNames } from '../../services/jobs/public-names.ts';
import { type FoundFailures, searchFailures } from '../../services/jobs/search-failures.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob } from './operation.ts';
import { readFailureSearch } from './read-filter.ts';
import { renderFailure, type Sight } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { type AttemptInfo, FailureDetails, type FailureInfo, FailureSearch, FailureSearchResult } from './schemas/failure.ts';
import { JobParams, named } from './schemas/shapes.ts';
import { CATEGORY_WORDS, STATE_WORDS } from './words.ts';

const getSchema = {
  operationId: 'getFailure',
  summary: 'Get the failure of a job',
  description:
    'Returns the newest failure of a job, even while it waits for its next attempt or runs again. The response is 404 if the job has not failed or does not exist.',
  params: JobParams,
  querystring: Type.Object(
    { include_all_attempts: Type.Optional(Type.Boolean({ default: false, description: 'Add every attempt.' })) },
    { additionalProperties: false },
  ),
  response: { 200: answer(FailureDetails, 'The failure.'), ...errorResponses(404) },
};

export function getFailureRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id/failure', { schema: getSchema, ...needs('failures:read') }, async (request) => {
    const { owner, sight } = callerOf(request);
    const { include_all_attempts: includeAllAttempts } = request.query;
    const { id } = request.params;
    const inspected = await inspectFailure(engine, { ...owner, id, includeAllAttempts });
    if (inspected.kind === 'not_found') throw noSuchJob(id);
    if (inspected.kind === 'never_failed') throw new AppError('NOT_FOUND', { message: `Job ${id} exists and has not failed.` });
    return renderDetails(inspected.details, { ...sight, names: await publicNames(engine) });
  });
}

const searchSchema = {
  operationId: 'searchFailures',
  summary: 'Search failures',
  description:
    'Returns jobs that are FAILED, DEAD_LETTER or RETRYING now, the newest failure first, and counts by category, code and type.',
  body: named(FailureSearch),
  response: { 200: answer(FailureSearchResult, 'A page of failures.'), ...errorResponses() },
};

export function searchFailuresRoute(http: Http, engine: Engine): void {
  http.post('/failures/search', { schema: searchSchema, ...needs('failures:read'), ...bodyMayBeAbsent }, async (request, reply) => {
    const { owner, sight } = callerOf(request);
    const found = await searchFailures(engine, { ...owner, ...readFailureSearch(request.body), signal: signalOf(reply) });
    return renderFailures(found, { ...sight, names: await publicNames(engine) });
  });
}

type FailureSight = Sight & { names: PublicNames };
type Attempt = NonNullable<Details['attempts']>[number];
type Occurrence = Pick<Attempt, 'attempt' | 'workerId' | 'host'> & { timestamp: Date; durationMs: number };

function renderDetails(details: Details, sight: FailureSight): Static<typeof FailureDetails> {
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

function renderInfo(failure: Failure, at: Occurrence, { names, ...sight }: FailureSight): Static<typeof FailureInfo> {
  return {
    ...renderFailure(failure, sight),
    attempt: at.attempt,
    timestamp: formatTimestamp(at.timestamp),
    duration_ms: at.durationMs,
    context: publicContext(failure),
    worker_id: at.workerId === null ? null : names.workerOf(at.workerId),
    host: at.host === null ? null : names.hostOf(at.host),
  };
}

/** Omits an attempt that is still running. */
function renderAttempt(attempt: Attempt, sight: FailureSight): Static<typeof AttemptInfo>[] {
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

function renderFailures(found: FoundFailures, sight: FailureSight): Static<typeof FailureSearchResult> {
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

/** Adds up the core categories that the API shows as one. */
function renderCategories(byCategory: FoundFailures['byCategory']): Record<string, number> {
  const shown = new Map<string, number>();
  for (const [category, count] of Object.entries(byCategory)) {
    const name = lookUp<string>(CATEGORY_WORDS, category) ?? category;
    shown.set(name, (shown.get(name) ?? 0) + count);
  }
  return dictionary(shown);
}
