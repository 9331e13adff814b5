import type { Static } from 'typebox';
import type { IdempotencyRecord } from '../../core/idempotency-record.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { readKeyRecord } from '../../services/jobs/read-key-record.ts';
import type { Http } from '../door.ts';
import { callerOf, needs } from './operation.ts';
import { ApiError, answer, errorResponses } from './schemas/error.ts';
import { IdempotencyKey, IdempotencyKeyParams, IdempotencyKeyQuery } from './schemas/idempotency.ts';

const schema = {
  operationId: 'getIdempotencyKey',
  summary: 'Get an idempotency key',
  description:
    'Returns the job that an idempotency key stands for, and how it stands. If jobs of several types or projects have the key, the response is 400 and lists what to add. A key is removed when it expires or with its job.',
  params: IdempotencyKeyParams,
  querystring: IdempotencyKeyQuery,
  response: {
    200: answer(IdempotencyKey, 'The key.'),
    ...errorResponses(),
    404: answer(ApiError, 'No job of the org has this key now (NOT_FOUND).'),
  },
};

export function idempotencyKeyRoute(http: Http, engine: Engine): void {
  http.get('/idempotency-keys/:key', { schema, ...needs('jobs:read') }, async (request) => {
    const { type, project_id: keyProjectId } = request.query;
    return render(await readKeyRecord(engine, { ...callerOf(request).owner, key: request.params.key, type, keyProjectId }));
  });
}

function render(record: IdempotencyRecord): Static<typeof IdempotencyKey> {
  return {
    key: record.key,
    type: record.type,
    project_id: record.projectId,
    status: record.status,
    first_seen_at: formatTimestamp(record.firstSeenAt),
    last_seen_at: formatTimestamp(record.lastSeenAt),
    expires_at: formatTimestamp(record.expiresAt),
    job_id: record.jobId,
    result_ref: record.status === 'succeeded' ? `/queue/v1/jobs/${record.jobId}?include_result=true` : null,
    error_ref: errorPathOf(record),
  };
}

/** A job that ended without an attempt has no failure. Its history says who cancelled it, or what it depended on. */
function errorPathOf({ status, state, jobId, hasFailure }: IdempotencyRecord): string | null {
  if (status !== 'failed' && status !== 'dead') return null;
  const showsFailure = hasFailure && state !== 'cancelled';
  return `/queue/v1/jobs/${jobId}${showsFailure ? '/failure' : '?include_history=true'}`;
}
