import { Type } from 'typebox';
import { INGEST_STATUSES } from '../../core/ingest/status.ts';
import type { StreamEntry } from '../../core/ingest/stream.ts';
import { cancelIngestJob, retryIngestJob } from '../../services/ingest/act-on-job.ts';
import { findIngestJobs, findResources, requireIngestJob } from '../../services/ingest/read-jobs.ts';
import { readLog } from '../../services/ingest/read-log.ts';
import { snapshotOf } from '../../services/ingest/snapshot.ts';
import type { Http } from '../door.ts';
import { readTime } from '../shared/query-values.ts';
import { signalOf } from '../shared/request-signal.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { sendLines } from '../shared/send-lines.ts';
import { answer, named, word } from '../shared/shapes.ts';
import { operatorOf, orgOf } from './identity.ts';
import type { OperatorParts } from './parts.ts';
import { renderLine, renderResource } from './render.ts';
import { Cancelled, IngestJobList, IngestJobView, IngestResourceList, JobParams, LogEnvelope, PAGE, Reason, Retried } from './schemas.ts';

const Time = (description: string) =>
  Type.Optional(Type.String({ description: `${description} RFC 3339.`, examples: ['2024-01-15T10:30:00Z'] }));

const JobQuery = Type.Object(
  {
    status: Type.Optional(word(INGEST_STATUSES)),
    job_type: Type.Optional(Type.String({ maxLength: 100 })),
    tenant: Type.Optional(Type.String({ maxLength: 128 })),
    since: Time('Accepted at or after this time.'),
    until: Time('Accepted before this time.'),
    org: Type.Optional(Type.String({ maxLength: 100, description: 'The id or the slug of an org.' })),
    ...PAGE,
  },
  { additionalProperties: false },
);

export function listJobsRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'listIngestJobs',
    summary: 'List ingest jobs, newest first',
    querystring: JobQuery,
    response: { 200: answer(IngestJobList, 'A page of jobs.') },
  };
  http.get('/jobs', { schema, config }, async (request) => {
    const { status, job_type, tenant, since, until, org, cursor, limit } = request.query;
    const filter = {
      orgId: await orgOf(ingest, operatorOf(request), org),
      status: status ?? null,
      jobType: job_type ?? null,
      tenant: tenant ?? null,
      since: readTime(since, 'since'),
      until: readTime(until, 'until'),
    };
    const { items, nextCursor } = await findIngestJobs(ingest.engine, filter, { cursor: cursor ?? null, limit });
    return { items: items.map(snapshotOf), next_cursor: nextCursor };
  });
}

export function getJobRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'getIngestJob',
    summary: 'Get an ingest job with its status and counters',
    params: JobParams,
    response: { 200: answer(IngestJobView, 'The job.') },
  };
  http.get('/jobs/:job_id', { schema, config }, async (request) =>
    snapshotOf(await requireIngestJob(ingest.engine, operatorOf(request), request.params.job_id)),
  );
}

const ResourceQuery = Type.Object({ status: Type.Optional(word(INGEST_STATUSES)), ...PAGE }, { additionalProperties: false });

export function listResourcesRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'listIngestResources',
    summary: 'List the resources of a job, in the order of its manifest',
    params: JobParams,
    querystring: ResourceQuery,
    response: { 200: answer(IngestResourceList, 'A page of resources.') },
  };
  http.get('/jobs/:job_id/resources', { schema, config }, async (request) => {
    const { id: jobId, orgId } = await requireIngestJob(ingest.engine, operatorOf(request), request.params.job_id);
    const { status, cursor, limit } = request.query;
    const page = { cursor: cursor ?? null, limit };
    const { items, nextCursor } = await findResources(ingest.engine, { jobId, orgId, status: status ?? null }, page);
    return { items: items.map(renderResource), next_cursor: nextCursor };
  });
}

const LogQuery = Type.Object(
  {
    since_offset: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The first offset to return. Default: the log_cursor of the job.' }),
    ),
    follow: Type.Boolean({ default: false, description: 'Wait for further lines until the job has ended.' }),
  },
  { additionalProperties: false },
);

export function readLogRoute(http: Http, { ingest, streams, config }: OperatorParts): void {
  const schema = {
    operationId: 'readIngestLog',
    summary: 'Replay the log of a job',
    description: 'Sends one JSON object per line, oldest first.',
    params: JobParams,
    querystring: LogQuery,
    response: { 200: { description: 'The lines.', content: { 'application/x-ndjson': { schema: named(LogEnvelope) } } } },
  };
  http.get('/jobs/:job_id/logs', { schema, config, exposeHeadRoute: false }, async (request, reply) => {
    const job = await requireIngestJob(ingest.engine, operatorOf(request), request.params.job_id);
    const { since_offset: from = job.logOffset, follow: follows } = request.query;
    const signal = signalOf(reply);
    const pages = readLog({ database: ingest.engine.database, streams }, { jobId: job.id, orgId: job.orgId, from, follows, signal });
    // An error of the first page still gets an error response.
    const first = await pages.next();
    return sendLines(reply, linesOf(first, pages));
  });
}

async function* linesOf(first: IteratorResult<StreamEntry[]>, rest: AsyncGenerator<StreamEntry[]>): AsyncGenerator<string> {
  if (first.done === true) return;
  yield first.value.map(renderLine).join('');
  for await (const page of rest) yield page.map(renderLine).join('');
}

export function retryJobRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'retryIngestJob',
    summary: 'Retry the failed resources of a job',
    params: JobParams,
    body: Reason,
    response: { 202: answer(Retried, 'The failed downloads begin again.') },
  };
  http.post('/jobs/:job_id/retry', { schema, config, ...bodyMayBeAbsent }, async (request, reply) => {
    const operator = operatorOf(request);
    const job = await requireIngestJob(ingest.engine, operator, request.params.job_id);
    const result = await retryIngestJob(ingest, { job, actor: operator.actor, requestId: request.id, reason: request.body.reason ?? null });
    return reply.code(202).send(result);
  });
}

export function cancelJobRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'cancelIngestJob',
    summary: 'Cancel the downloads of a job that have not ended',
    params: JobParams,
    body: Reason,
    response: { 202: answer(Cancelled, 'The downloads are cancelled, or asked to stop.') },
  };
  http.post('/jobs/:job_id/cancel', { schema, config, ...bodyMayBeAbsent }, async (request, reply) => {
    const operator = operatorOf(request);
    const job = await requireIngestJob(ingest.engine, operator, request.params.job_id);
    const result = await cancelIngestJob(ingest, {
      job,
      actor: operator.actor,
      requestId: request.id,
      reason: request.body.reason ?? null,
    });
    return reply.code(202).send(result);
  });
}
