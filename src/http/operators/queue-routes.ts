import { type Static, Type } from 'typebox';
import { changeQueue, drainQueue, pauseQueue, resumeQueue } from '../../services/queues/change-queue.ts';
import { findQueue, listQueues, type QueueView } from '../../services/queues/read-queues.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { answer } from '../shared/shapes.ts';
import { operatorAsking, operatorOf, orgOf, requireEveryOrg } from './identity.ts';
import type { OperatorParts } from './parts.ts';
import { OperatorQueue, OperatorQueueList, QueueChange, type QueueChangeBody, WithReason } from './queue-schemas.ts';
import { PAGE } from './schemas.ts';

const WHAT = 'Queues';

const QueueParams = Type.Object({ name: Type.String({ description: 'The name of the queue, percent-encoded: q%3Adefault.' }) });

const ORG = Type.Optional(Type.String({ maxLength: 100, description: 'The id or the slug of an org: count only its jobs.' }));

export function readQueueRoutes(http: Http, { ingest, config }: OperatorParts): void {
  const list = {
    operationId: 'listQueues',
    summary: 'List the queues with their settings and load',
    description: 'The key of an org sees the jobs of that org only.',
    querystring: Type.Object({ org: ORG, ...PAGE }, { additionalProperties: false }),
    response: { 200: answer(OperatorQueueList, 'A page of queues, by name.') },
  };
  http.get('/queues', { schema: list, config }, async (request) => {
    const { org, cursor, limit } = request.query;
    const orgId = await orgOf(ingest, operatorOf(request), org);
    const { items, nextCursor } = await listQueues(ingest.engine, { orgId, cursor: cursor ?? null, limit });
    return { items: items.map(renderQueue), next_cursor: nextCursor };
  });
  const get = {
    operationId: 'getQueue',
    summary: 'Get a queue with its settings and load',
    params: QueueParams,
    querystring: Type.Object({ org: ORG }, { additionalProperties: false }),
    response: { 200: answer(OperatorQueue, 'The queue.') },
  };
  http.get('/queues/:name', { schema: get, config }, async (request) => {
    const orgId = await orgOf(ingest, operatorOf(request), request.query.org);
    return renderQueue(await findQueue(ingest.engine, { orgId, name: request.params.name }));
  });
}

export function changeQueueRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'changeQueue',
    summary: 'Change settings of a queue',
    description: 'Settings that the body does not name stay, and null removes one. All processes apply a change within a second.',
    params: QueueParams,
    body: QueueChange,
    response: { 200: answer(OperatorQueue, 'The queue after the change.') },
  };
  http.patch('/queues/:name', { schema, config }, async (request) => {
    requireEveryOrg(request, WHAT);
    const { name } = request.params;
    await changeQueue(ingest.engine, { name, requester: operatorAsking(request, request.body.reason), change: changeIn(request.body) });
    return renderQueue(await findQueue(ingest.engine, { orgId: null, name }));
  });
}

const changeIn = ({ order, concurrency, rate, depth_cap, slo_seconds, reserved_share }: QueueChangeBody) => ({
  order: order === null ? ('fair' as const) : order,
  concurrency,
  rate,
  depthCap: depth_cap,
  sloSeconds: slo_seconds,
  reservedShare: reserved_share,
});

const ACTIONS = [
  { verb: 'pause', act: pauseQueue, summary: 'Start no more jobs of a queue', after: 'Running jobs continue.' },
  { verb: 'resume', act: resumeQueue, summary: 'End the pause and the drain of a queue', after: 'It accepts and starts jobs again.' },
  {
    verb: 'drain',
    act: drainQueue,
    summary: 'Accept no new job in a queue',
    after: 'Jobs that wait there still run, with their retries and dependents. New ones are refused with 429.',
  },
] as const;

export function queueActionRoutes(http: Http, { ingest, config }: OperatorParts): void {
  for (const { verb, act, summary, after } of ACTIONS) {
    const schema = {
      operationId: `${verb}Queue`,
      summary,
      description: after,
      params: QueueParams,
      body: WithReason,
      response: { 200: answer(OperatorQueue, 'The queue after the change.') },
    };
    http.post(`/queues/:name/${verb}`, { schema, config, ...bodyMayBeAbsent }, async (request) => {
      requireEveryOrg(request, WHAT);
      const { name } = request.params;
      await act(ingest.engine, { name, requester: operatorAsking(request, request.body.reason) });
      return renderQueue(await findQueue(ingest.engine, { orgId: null, name }));
    });
  }
}

function renderQueue(queue: QueueView): Static<typeof OperatorQueue> {
  const { name, order, pausedAt, drainingAt, waiting, running, oldestWaitingMs, concurrency, rate, sloMet } = queue;
  return {
    name,
    order,
    paused: pausedAt !== null,
    draining: drainingAt !== null,
    waiting,
    running,
    oldest_waiting_seconds: oldestWaitingMs === null ? null : Math.max(0, Math.round(oldestWaitingMs) / 1_000),
    concurrency,
    rate,
    depth_cap: queue.depthCap,
    slo_seconds: queue.sloSeconds,
    slo_met: sloMet,
    reserved_share: queue.reservedShare,
  };
}
