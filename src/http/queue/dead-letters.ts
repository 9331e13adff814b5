import type { Static } from 'typebox';
import { submissionBytes } from '../../core/body-sizes.ts';
import type { PatchStep } from '../../core/governance/payload-patch.ts';
import { publicContext, publicFailure } from '../../core/public-failure.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { discardDeadLetter, fixForward, replayDeadLetter, restoreDeadLetter } from '../../services/dead-letters/act-on-dead-letter.ts';
import { type DeadLetterFilter, noSuchEntry } from '../../services/dead-letters/dead-letter-request.ts';
import {
  type DeadLetterView,
  type DeadLetterGroup as Group,
  groupDeadLetters,
  listDeadLetters,
  readDeadLetter,
} from '../../services/dead-letters/read-dead-letters.ts';
import type { Http } from '../door.ts';
import { readTime } from '../shared/query-values.ts';
import { signalOf } from '../shared/request-signal.ts';
import { bodyMayBeAbsent, callerOf, needs, requesterOf } from './operation.ts';
import { refuseSelfRegistered } from './own-types.ts';
import { timeOrNull } from './render.ts';
import {
  DeadLetterEntry,
  type DeadLetterGroup,
  DeadLetterGroupList,
  DeadLetterPage,
  DeadLetterParams,
  DeadLetterQuery,
  DeadLetterReason,
  Discarded,
  FixedForward,
  FixForward,
  GroupQuery,
  Replayed,
  Restored,
} from './schemas/dead-letter.ts';
import { ApiError, answer, errorResponses } from './schemas/error.ts';
import { named } from './schemas/shapes.ts';
import { jsonLimits } from './submit-jobs.ts';
import { CATEGORY_WORDS, STATE_WORDS } from './words.ts';

const ABSENT = { 404: answer(ApiError, 'The org of the key has no such dead letter (NOT_FOUND).') };
const NOT_OPEN = { 409: answer(ApiError, 'The entry is not open, or its job was removed (CONFLICT).') };

const listSchema = {
  operationId: 'listDeadLetters',
  summary: 'List dead letters',
  description: 'Returns dead-lettered jobs, newest first. By default those that nobody has acted on.',
  querystring: DeadLetterQuery,
  response: { 200: answer(DeadLetterPage, 'A page of entries.'), ...errorResponses() },
};

const groupSchema = {
  operationId: 'groupDeadLetters',
  summary: 'Group dead letters',
  description: 'Groups entries with the same job type, error code and message, whatever ids, numbers and quoted text the message has.',
  querystring: GroupQuery,
  response: { 200: answer(DeadLetterGroupList, 'The groups, largest first.'), ...errorResponses() },
};

const getSchema = {
  operationId: 'getDeadLetter',
  summary: 'Get a dead letter',
  description: 'Returns the error of a dead-lettered job, what to do about it, and what became of it.',
  params: DeadLetterParams,
  response: { 200: answer(DeadLetterEntry, 'The entry.'), ...errorResponses(), ...ABSENT },
};

export function readDeadLetterRoutes(http: Http, engine: Engine): void {
  http.get('/deadletter', { schema: listSchema, ...needs('failures:read') }, async (request, reply) => {
    const { limit, cursor, ...given } = request.query;
    const { owner } = callerOf(request);
    const found = await listDeadLetters(engine, { ...owner, filter: readDeadLetterFilter(given), limit, cursor, signal: signalOf(reply) });
    return { items: found.entries.map(renderEntry), next_cursor: found.nextCursor };
  });
  http.get('/deadletter/groups', { schema: groupSchema, ...needs('failures:read') }, async (request, reply) => {
    const { limit, ...given } = request.query;
    const { owner } = callerOf(request);
    const found = await groupDeadLetters(engine, { ...owner, filter: readDeadLetterFilter(given), limit, signal: signalOf(reply) });
    return { items: found.groups.map(renderGroup), counts_are_partial: found.isPartial };
  });
  http.get('/deadletter/:job_id', { schema: getSchema, ...needs('failures:read') }, async (request) => {
    const { job_id: id } = request.params;
    const entry = await readDeadLetter(engine, { ...callerOf(request).owner, id });
    if (entry === null) throw noSuchEntry(id);
    return renderEntry(entry);
  });
}

type GivenFilter = Omit<Static<typeof DeadLetterQuery>, 'limit' | 'cursor'>;

/** Translates the filter of a query or a body. */
export function readDeadLetterFilter({ project_id, since, until, ...rest }: GivenFilter): DeadLetterFilter {
  const [from, to] = [readTime(since, 'since'), readTime(until, 'until')];
  return {
    ...rest,
    ...(project_id === undefined ? {} : { projectId: project_id }),
    ...(from === null ? {} : { since: from }),
    ...(to === null ? {} : { until: to }),
  };
}

const acting = (operationId: string, summary: string, description: string) => ({
  operationId,
  summary,
  description,
  params: DeadLetterParams,
  body: named(DeadLetterReason),
});

const replaySchema = {
  ...acting('replayDeadLetter', 'Replay a dead letter', 'Runs the same job again with fresh attempts and a new lifetime.'),
  response: { 202: answer(Replayed, 'The job is queued.'), ...errorResponses(), ...ABSENT, ...NOT_OPEN },
};

const discardSchema = {
  ...acting('discardDeadLetter', 'Discard a dead letter', 'Closes the entry without running the job. It can be restored until undo_until.'),
  response: { 200: answer(Discarded, 'The entry is closed.'), ...errorResponses(), ...ABSENT, ...NOT_OPEN },
};

const restoreSchema = {
  ...acting('restoreDeadLetter', 'Restore a discarded dead letter', 'Undoes a discard, until the undo_until that it returned.'),
  response: {
    200: answer(Restored, 'The entry is open again.'),
    ...errorResponses(),
    ...ABSENT,
    409: answer(ApiError, 'The entry is not discarded, or the time to undo that is over (CONFLICT).'),
  },
};

const fixSchema = {
  operationId: 'fixForward',
  summary: 'Fix a dead letter forward',
  description:
    'Submits a new job with a corrected payload in the place of the dead one. It has the same type, queue, policy, project, category, tags and correlation id, and its payload is validated as that of any submission.',
  params: DeadLetterParams,
  body: named(FixForward),
  response: { 202: answer(FixedForward, 'The new job is accepted.'), ...errorResponses(), ...ABSENT, ...NOT_OPEN },
};

export function actOnDeadLetterRoutes(http: Http, engine: Engine): void {
  const options = { ...needs('deadletter:manage'), ...bodyMayBeAbsent };
  http.post('/deadletter/:job_id/replay', { schema: replaySchema, ...options }, async (request, reply) => {
    const { job_id: id } = request.params;
    const { jobId, state } = await replayDeadLetter(engine, {
      ...callerOf(request).owner,
      id,
      requester: requesterOf(request, request.body.reason),
    });
    return reply.code(202).send({ job_id: jobId, state: STATE_WORDS[state] });
  });
  http.post('/deadletter/:job_id/discard', { schema: discardSchema, ...options }, async (request) => {
    const { job_id: id } = request.params;
    const params = { ...callerOf(request).owner, id, requester: requesterOf(request, request.body.reason) };
    const { jobId, status, undoUntil } = await discardDeadLetter(engine, params);
    return { job_id: jobId, status, undo_until: formatTimestamp(undoUntil) };
  });
  http.post('/deadletter/:job_id/restore', { schema: restoreSchema, ...options }, async (request) => {
    const { job_id: id } = request.params;
    const params = { ...callerOf(request).owner, id, requester: requesterOf(request, request.body.reason) };
    const { jobId, status } = await restoreDeadLetter(engine, params);
    return { job_id: jobId, status };
  });
  const bodyLimit = submissionBytes(engine.limits.maxPayloadBytes);
  const config = { ...needs('deadletter:manage').config, json: jsonLimits(bodyLimit) };
  http.post('/deadletter/:job_id/fix-forward', { schema: fixSchema, config, bodyLimit }, async (request, reply) => {
    const { identity, owner } = callerOf(request);
    refuseSelfRegistered(identity);
    const { payload, patch, reason } = request.body;
    const correction = { payload, patch: patch as readonly PatchStep[] | undefined };
    const params = { ...owner, id: request.params.job_id, requester: requesterOf(request, reason), ...correction };
    const { jobId, replacesJobId } = await fixForward(engine, params);
    return reply.code(202).send({ job_id: jobId, replaces_job_id: replacesJobId });
  });
}

function renderEntry(entry: DeadLetterView): Static<typeof DeadLetterEntry> {
  const { error } = entry;
  const { category, code, message, stackTrace } = publicFailure(error);
  const context = publicContext(error);
  return {
    job_id: entry.jobId,
    type: entry.type,
    origin_queue: entry.originQueue,
    category: entry.category,
    project_id: entry.projectId,
    status: entry.status,
    failed_at: formatTimestamp(entry.failedAt),
    attempts: entry.attempts,
    reason: entry.reason,
    error: {
      code,
      message,
      category: CATEGORY_WORDS[category],
      ...(stackTrace === undefined ? {} : { stack: stackTrace }),
      ...(Object.keys(context).length === 0 ? {} : { context }),
    },
    fingerprint: entry.fingerprint,
    action_plan: { recommended: entry.actionPlan.recommended, steps: [...entry.actionPlan.steps] },
    resolved_at: timeOrNull(entry.resolvedAt),
    resolved_by: entry.resolvedBy,
    undo_until: timeOrNull(entry.undoUntil),
    replaced_by_job_id: entry.replacedByJobId,
  };
}

function renderGroup(group: Group): Static<typeof DeadLetterGroup> {
  const { code, message } = publicFailure(group.error);
  return {
    fingerprint: group.fingerprint,
    type: group.type,
    code,
    message,
    count: group.count,
    first_at: formatTimestamp(group.firstAt),
    last_at: formatTimestamp(group.lastAt),
    sample_job_id: group.sampleJobId,
  };
}
