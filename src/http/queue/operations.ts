import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { submissionBytes } from '../../core/body-sizes.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { actsOnDeadLetters, type OperationAction } from '../../core/governance/operation.ts';
import type { PatchStep } from '../../core/governance/payload-patch.ts';
import { isRecord } from '../../core/known-members.ts';
import { withinMember } from '../../core/member-issues.ts';
import type { Owner } from '../../core/owner.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { changeOperation, OPERATION_CONTROLS, type OperationControl } from '../../services/operations/control-operation.ts';
import type { OperationRequest } from '../../services/operations/operation-request.ts';
import { previewOperation } from '../../services/operations/preview-operation.ts';
import { type Operation, readItems, readOperation, readOperations } from '../../services/operations/read-operations.ts';
import { startOperation } from '../../services/operations/start-operation.ts';
import type { Http } from '../door.ts';
import type { Identity, Scope } from '../shared/identity.ts';
import { signalOf } from '../shared/request-signal.ts';
import { readDeadLetterFilter } from './dead-letters.ts';
import { bodyMayBeAbsent, callerOf, needs, requesterOf } from './operation.ts';
import { refuseSelfRegistered } from './own-types.ts';
import { readSearch } from './read-filter.ts';
import { timeOrNull } from './render.ts';
import { DeadLetterReason } from './schemas/dead-letter.ts';
import { ApiError, answer, errorResponses } from './schemas/error.ts';
import {
  ItemQuery,
  NewOperation,
  OperationItemList,
  OperationList,
  OperationParams,
  OperationPreview,
  OperationQuery,
  OperationView,
} from './schemas/operation.ts';
import { named } from './schemas/shapes.ts';
import { jsonLimits } from './submit-jobs.ts';
import { STATE_WORD_LIST, type StateWord } from './words.ts';

const SCOPES: Readonly<Record<OperationAction, Scope>> = {
  replay: 'deadletter:manage',
  discard: 'deadletter:manage',
  fix_forward: 'deadletter:manage',
  retry: 'jobs:write',
  cancel: 'jobs:cancel',
};

/** An operation needs the scope of its action. */
function requireScopeOf(action: OperationAction, identity: Identity): void {
  const scope = SCOPES[action];
  if (identity.scopes.has(scope)) return;
  const message = `The API key lacks the scope ${scope}, which the action ${action} needs.`;
  throw new AppError('FORBIDDEN', { message, details: [{ field: 'action', code: 'MISSING_SCOPE', message }] });
}

const READERS: readonly Scope[] = ['jobs:read', 'failures:read', ...new Set(Object.values(SCOPES))];

/** Whoever may look at jobs or make operations may look at operations. */
function requireReader(identity: Identity): void {
  if (READERS.some((scope) => identity.scopes.has(scope))) return;
  const message = `The API key needs one of the scopes ${READERS.join(', ')}.`;
  throw new AppError('FORBIDDEN', { message, details: [{ field: 'authorization', code: 'MISSING_SCOPE', message }] });
}

/** The owner that a caller may read operations of. */
function readerOf(request: FastifyRequest): Owner {
  const { identity, owner } = callerOf(request);
  requireReader(identity);
  return owner;
}

const ABSENT = { 404: answer(ApiError, 'The org of the key has no such operation (NOT_FOUND).') };

const createSchema = {
  operationId: 'createOperation',
  summary: 'Change many jobs',
  description:
    'Replays, discards or fixes forward dead letters, or retries or cancels jobs, step by step. It needs the scope of its action: deadletter:manage, jobs:write for retry, jobs:cancel for cancel. With dry_run nothing changes.',
  body: named(NewOperation),
  response: {
    200: answer(OperationPreview, 'With dry_run: what the operation would do.'),
    202: answer(OperationView, 'The operation is accepted.'),
    ...errorResponses(),
  },
};

export function createOperationRoute(http: Http, engine: Engine): void {
  const bodyLimit = submissionBytes(engine.limits.maxPayloadBytes);
  const config = { ...needs().config, json: jsonLimits(bodyLimit) };
  http.post('/operations', { schema: createSchema, config, bodyLimit }, async (request, reply) => {
    const { identity, owner } = callerOf(request);
    refuseSelfRegistered(identity);
    const { dry_run: isDryRun = false, reason } = request.body;
    requireScopeOf(request.body.action, identity);
    const read = readRequest(request.body);
    if (isDryRun) {
      const { matching, sample } = await previewOperation(engine, { ...owner, request: read, signal: signalOf(reply) });
      const shown = sample.map(({ jobId, before, after, error }) => ({
        job_id: jobId,
        before,
        after,
        ...(error === undefined ? {} : { error }),
      }));
      return reply.send({ matching, sample: shown });
    }
    const operation = await startOperation(engine, { ...owner, request: read, requester: requesterOf(request, reason) });
    return reply.code(202).send(renderOperation(operation, engine));
  });
}

function readRequest(given: Static<typeof NewOperation>): OperationRequest {
  const { action, filter, job_ids: jobIds, patch, payload, canary, rate, halt, reason } = given;
  return {
    action,
    jobIds,
    canary,
    rate,
    reason,
    payload,
    patch: patch as readonly PatchStep[] | undefined,
    ...(filter === undefined ? {} : { filter: readFilter(action, filter) }),
    ...(halt === undefined ? {} : { halt: { failureRate: halt.failure_rate, after: halt.after } }),
  };
}

/** The members of the two kinds of filters have the same forms as in their own routes. */
function readFilter(action: OperationAction, filter: Record<string, unknown>): OperationRequest['filter'] {
  for (const [name, value] of Object.entries(filter)) checkMember(name, value);
  if (actsOnDeadLetters(action))
    return withinMember('filter', () => readDeadLetterFilter(filter as Parameters<typeof readDeadLetterFilter>[0]));
  const { types, states, priorities, tags, created_after, created_before, updated_after, ...others } = filter as Parameters<
    typeof readSearch
  >[0];
  const unknown = Object.keys(others)[0];
  if (unknown !== undefined)
    throw invalidRequest({
      field: `filter.${unknown}`,
      code: 'UNKNOWN_MEMBER',
      message: `filter.${unknown} is not a filter of jobs. Use types, states, priorities, tags or a time.`,
    });
  const given = { types, states, priorities, tags, created_after, created_before, updated_after };
  return withinMember('filter', () => readSearch(given)).filter;
}

const LISTS: ReadonlySet<string> = new Set(['types', 'states', 'priorities']);

function checkMember(name: string, value: unknown): void {
  const wanted = wantedOf(name, value);
  if (wanted === null) return;
  const field = `filter.${name.slice(0, 100)}`;
  throw invalidRequest({ field, code: 'INVALID_TYPE', message: `${field} must be ${wanted}` });
}

/** What the member should have been, or null if it may be what it is. */
function wantedOf(name: string, value: unknown): string | null {
  if (name === 'tags') return isRecord(value) ? null : 'an object';
  if (!LISTS.has(name)) return typeof value === 'string' ? null : 'a text';
  const isList = Array.isArray(value) && value.length <= 100 && value.every((each) => typeof each === 'string');
  if (!isList) return 'a list of at most 100 texts';
  const isKnown = name !== 'states' || value.every((each) => STATE_WORD_LIST.includes(each as StateWord));
  return isKnown ? null : `a list of states: ${STATE_WORD_LIST.join(', ')}`;
}

const listSchema = {
  operationId: 'listOperations',
  summary: 'List operations',
  description: 'Returns the operations of the org, newest first. A key of a project sees those that were made with a key of its project.',
  querystring: OperationQuery,
  response: { 200: answer(OperationList, 'A page of operations.'), ...errorResponses() },
};

const getSchema = {
  operationId: 'getOperation',
  summary: 'Get an operation',
  description: 'Returns an operation with its progress.',
  params: OperationParams,
  response: { 200: answer(OperationView, 'The operation.'), ...errorResponses(), ...ABSENT },
};

const itemsSchema = {
  operationId: 'listOperationItems',
  summary: 'List the jobs of an operation',
  description: 'Returns the report of an operation: each of its jobs once, with its result.',
  params: OperationParams,
  querystring: ItemQuery,
  response: { 200: answer(OperationItemList, 'A page of jobs.'), ...errorResponses(), ...ABSENT },
};

export function readOperationRoutes(http: Http, engine: Engine): void {
  http.get('/operations', { schema: listSchema, ...needs() }, async (request) => {
    const found = await readOperations(engine, { ...readerOf(request), ...request.query });
    return { items: found.operations.map((each) => renderOperation(each, engine)), next_cursor: found.nextCursor };
  });
  http.get('/operations/:operation_id', { schema: getSchema, ...needs() }, async (request) =>
    renderOperation(await readOperation(engine, { ...readerOf(request), id: request.params.operation_id }), engine),
  );
  http.get('/operations/:operation_id/items', { schema: itemsSchema, ...needs() }, async (request) => {
    const found = await readItems(engine, { ...readerOf(request), ...request.query, id: request.params.operation_id });
    const items = found.items.map((item) => ({
      job_id: item.jobId,
      result: item.result,
      new_job_id: item.newJobId,
      error: item.error,
      sent_at: timeOrNull(item.sentAt),
      ended_at: timeOrNull(item.endedAt),
      undone: item.isUndone,
    }));
    return { items, next_cursor: found.nextCursor };
  });
}

const CONTROLS = {
  pause: ['Pause an operation', 'Sends no more jobs until it is resumed. The outcomes of those that were sent are still followed.'],
  resume: ['Resume an operation', 'Continues a paused or halted operation. After a halt, the count of failures starts again.'],
  stop: ['Stop an operation', 'Ends an operation. The jobs that it has not acted on are skipped.'],
  undo: [
    'Undo an operation',
    'Stops an operation and takes back what it did, in bounded steps: discarded entries are open again, and jobs that have not started return to the dead letter. Jobs that have started go on.',
  ],
} as const satisfies Record<OperationControl, readonly [string, string]>;

const controlSchema = (control: OperationControl) => ({
  operationId: `${control}Operation`,
  summary: CONTROLS[control][0],
  description: `${CONTROLS[control][1]} It needs the scope of the action.`,
  params: OperationParams,
  body: named(DeadLetterReason),
  response: {
    200: answer(OperationView, 'The operation as it is now.'),
    ...errorResponses(),
    ...ABSENT,
    409: answer(ApiError, 'The state of the operation does not allow the request (CONFLICT).'),
  },
});

export function controlOperationRoutes(http: Http, engine: Engine): void {
  for (const control of OPERATION_CONTROLS) {
    const options = { schema: controlSchema(control), ...needs(), ...bodyMayBeAbsent };
    http.post(`/operations/:operation_id/${control}`, options, async (request) => {
      const { identity } = callerOf(request);
      const owner = readerOf(request);
      const id = request.params.operation_id;
      requireScopeOf((await readOperation(engine, { ...owner, id })).action, identity);
      const requester = requesterOf(request, request.body.reason);
      return renderOperation(await changeOperation(engine, { ...owner, id, control, requester }), engine);
    });
  }
}

const FILTER_NAMES: ReadonlyMap<string, string> = new Map([
  ['projectId', 'project_id'],
  ['createdAfter', 'created_after'],
  ['createdBefore', 'created_before'],
  ['updatedAfter', 'updated_after'],
]);

/** As a request may name it again. */
function renderFilter(filter: Operation['filter']): Record<string, unknown> | null {
  if (filter === null) return null;
  const members = Object.entries(filter).map(([name, value]): [string, unknown] => {
    const isStates = name === 'states' && Array.isArray(value);
    return [FILTER_NAMES.get(name) ?? name, isStates ? value.map((state) => String(state).toUpperCase()) : value];
  });
  return Object.fromEntries(members);
}

function renderOperation(operation: Operation, engine: Engine): Static<typeof OperationView> {
  const { succeeded, failed, skipped, halt, finishedAt, action } = operation;
  const canUndo = finishedAt !== null && action !== 'cancel' && operation.undoAskedAt === null;
  return {
    operation_id: operation.id,
    action,
    state: operation.state,
    matching: operation.matching,
    listing_complete: operation.isListed,
    sent: operation.sent,
    done: succeeded + failed + skipped,
    succeeded,
    failed,
    skipped,
    undone: operation.undone,
    rate: operation.rate,
    canary: operation.canary,
    halt: halt === null ? null : { failure_rate: halt.failureRate, after: halt.after },
    filter: renderFilter(operation.filter),
    reason: operation.reason,
    created_by: operation.actor,
    created_at: formatTimestamp(operation.createdAt),
    finished_at: timeOrNull(finishedAt),
    halted_because: operation.haltedBecause,
    undo_until: canUndo ? formatTimestamp(new Date(finishedAt.getTime() + engine.deadLetters.terms.undoWindowMs)) : null,
  };
}
