import { type Static, Type } from 'typebox';
import { formatTimestamp } from '../../core/timestamp.ts';
import { type JobTypeView, listTypes, pauseJobType, resumeJobType } from '../../services/queues/job-types.ts';
import { type ListedWorker, pageOfWorkers } from '../../services/queues/list-workers.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { answer } from '../shared/shapes.ts';
import { operatorAsking, operatorOf, orgOf, requireEveryOrg } from './identity.ts';
import type { OperatorParts } from './parts.ts';
import { type OperatorType, OperatorTypeList, type OperatorWorker, OperatorWorkerList, PausedType, WithReason } from './queue-schemas.ts';
import { PAGE } from './schemas.ts';

const ORG = Type.Optional(Type.String({ maxLength: 100, description: 'The id or the slug of an org: count only its jobs.' }));

export function typeRoutes(http: Http, { ingest, config }: OperatorParts): void {
  const list = {
    operationId: 'listJobTypes',
    summary: 'List the job types, their caps and the workers that run them',
    description: 'The key of an org sees the jobs of that org only.',
    querystring: Type.Object({ org: ORG, ...PAGE }, { additionalProperties: false }),
    response: { 200: answer(OperatorTypeList, 'A page of types, by name.') },
  };
  http.get('/types', { schema: list, config }, async (request) => {
    const { org, cursor, limit } = request.query;
    const orgId = await orgOf(ingest, operatorOf(request), org);
    const { items, nextCursor } = await listTypes(ingest.engine, { orgId, cursor: cursor ?? null, limit });
    return { items: items.map(renderType), next_cursor: nextCursor };
  });
  const params = Type.Object({ type: Type.String({ description: 'The name of the job type, percent-encoded.' }) });
  for (const [verb, act, paused] of [
    ['pause', pauseJobType, true],
    ['resume', resumeJobType, false],
  ] as const) {
    const schema = {
      operationId: `${verb}JobType`,
      summary: paused ? 'Start no more jobs of a type' : 'Start jobs of a paused type again',
      params,
      body: WithReason,
      response: { 200: answer(PausedType, 'The type.') },
    };
    http.post(`/types/:type/${verb}`, { schema, config, ...bodyMayBeAbsent }, async (request) => {
      requireEveryOrg(request, 'Job types');
      const { type } = request.params;
      await act(ingest.engine, { name: type, requester: operatorAsking(request, request.body.reason) });
      return { type, paused };
    });
  }
}

export function workerRoutes(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'listWorkers',
    summary: 'List the workers that have not stopped',
    description: 'The key of an org sees no host names, and the jobs of that org only.',
    querystring: Type.Object({ org: ORG, ...PAGE }, { additionalProperties: false }),
    response: { 200: answer(OperatorWorkerList, 'A page of workers, oldest first.') },
  };
  http.get('/workers', { schema, config }, async (request) => {
    const { org, cursor, limit } = request.query;
    const operator = operatorOf(request);
    const orgId = await orgOf(ingest, operator, org);
    const page = { cursor: cursor ?? null, limit };
    const { items, nextCursor } = await pageOfWorkers(ingest.engine, { orgId, hidesNames: operator.orgId !== null }, page);
    return { items: items.map(renderWorker), next_cursor: nextCursor };
  });
}

const renderType = (type: JobTypeView): Static<typeof OperatorType> => ({
  type: type.name,
  paused: type.pausedAt !== null,
  concurrency: type.concurrency,
  running: type.running,
  served: type.workerIds.length > 0,
  worker_ids: [...type.workerIds],
  custom_backoff: type.customBackoff,
  announced_at: formatTimestamp(type.announcedAt),
});

const renderWorker = (worker: ListedWorker): Static<typeof OperatorWorker> => ({
  worker_id: worker.id,
  name: worker.name,
  status: worker.status,
  host: worker.host,
  pid: worker.pid,
  started_at: formatTimestamp(worker.startedAt),
  last_seen_at: formatTimestamp(worker.beatAt),
  slots: worker.slots,
  running: worker.running,
  queues: worker.queues,
  types: worker.types,
});
