import { randomUUID } from 'node:crypto';
import { batchBytes, submissionBytes } from '../../core/body-sizes.ts';
import { invalidRequest, isAppError } from '../../core/errors.ts';
import { JOB_STATES } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { type BatchProgress, batchFailuresPage, readBatchProgress } from '../../services/jobs/batch-progress.ts';
import { createBatch, finishBatch, putPiece } from '../../services/jobs/change-batch.ts';
import { refuseForeignDependencies } from '../../services/jobs/own-dependencies.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import type { Intake } from './intake.ts';
import { askerOf, bodyMayBeAbsent, callerOf, judgedByService, needs } from './operation.ts';
import { refuseSelfRegistered } from './own-types.ts';
import { inSentNames, readBatch } from './read-submission.ts';
import { renderFailure } from './render.ts';
import {
  Batch,
  BatchFailures,
  BatchFailuresQuery,
  BatchParams,
  BatchPiece,
  MAX_PART,
  NewBatch,
  NewBatchPiece,
  PieceParams,
} from './schemas/batch.ts';
import { ApiError, answer, errorResponses } from './schemas/error.ts';
import { named } from './schemas/shapes.ts';
import { BATCH_VALUES, jsonLimits } from './submit-jobs.ts';
import { STATE_WORDS } from './words.ts';

const ABSENT = { 404: answer(ApiError, 'The org of the key has no such batch (NOT_FOUND).') };
const TAKEN = { 409: answer(ApiError, 'The id belongs to another batch (CONFLICT).') };

function render(id: string, { states, isSubmitted, isDone, ...counts }: BatchProgress) {
  const words = Object.fromEntries(JOB_STATES.map((state) => [STATE_WORDS[state], states[state]]));
  return {
    batch_id: id.toLowerCase(),
    ...counts,
    states: words as Record<(typeof STATE_WORDS)[keyof typeof STATE_WORDS], number>,
    submitted: isSubmitted,
    done: isDone,
  };
}

const createSchema = {
  operationId: 'createBatch',
  summary: 'Open a batch',
  description:
    'Creates an empty batch. Then send its jobs in pieces with putBatchPiece, and close it. A batch has any number of jobs, is counted exactly, and can be awaited. With a batch_id of your own, the request can be repeated (200).',
  body: named(NewBatch),
  response: { 200: answer(Batch, 'The batch exists.'), 201: answer(Batch, 'The batch is created.'), ...errorResponses(), ...TAKEN },
};

const putSchema = {
  operationId: 'putBatchPiece',
  summary: 'Submit a piece of a batch',
  description:
    'Submits 1 to 1000 jobs of a batch, all or none. A piece with the same number and the same jobs is submitted once, however often it is sent. Other jobs under the same number are refused (409), and so is a piece of a closed batch.',
  params: PieceParams,
  body: named(NewBatchPiece),
  response: {
    200: answer(BatchPiece, 'The jobs of the piece are stored.'),
    ...errorResponses(),
    ...ABSENT,
    409: answer(
      ApiError,
      'The piece has other jobs, or the batch is closed (CONFLICT); or an idempotency key belongs to another request (DUPLICATE).',
    ),
  },
};

const closeSchema = {
  operationId: 'closeBatch',
  summary: 'Close a batch',
  description: 'Says that all jobs of the batch are submitted. Only a closed batch can be done. Closing it again changes nothing.',
  params: BatchParams,
  response: { 200: answer(Batch, 'The batch.'), ...errorResponses(), ...ABSENT },
};

const getSchema = {
  operationId: 'getBatch',
  summary: 'Count the jobs of a batch',
  description: 'Returns exact counts of this moment. They come from the jobs themselves, so they always add up.',
  params: BatchParams,
  response: { 200: answer(Batch, 'The batch.'), ...errorResponses(), ...ABSENT },
};

const failuresSchema = {
  operationId: 'listBatchFailures',
  summary: 'List the jobs of a batch that did not complete',
  description: 'Returns the jobs that failed, are dead-lettered or were cancelled, in the order of their submission.',
  params: BatchParams,
  querystring: BatchFailuresQuery,
  response: { 200: answer(BatchFailures, 'A page of jobs.'), ...errorResponses(), ...ABSENT },
};

export function readBatchRoutes(http: Http, engine: Engine): void {
  http.get('/batches/:batch_id', { schema: getSchema, ...needs('jobs:read') }, async (request) => {
    const { batch_id: id } = request.params;
    return render(id, await readBatchProgress(engine, { ...callerOf(request).owner, id }));
  });
  http.get('/batches/:batch_id/failures', { schema: failuresSchema, ...needs('jobs:read') }, async (request) => {
    const { owner, sight } = callerOf(request);
    const { cursor, limit } = request.query;
    const page = await batchFailuresPage(engine, { ...owner, id: request.params.batch_id, cursor: cursor ?? null, limit: limit as number });
    const items = page.items.map(({ jobId, type, state, error }) => ({
      job_id: jobId,
      type,
      state: STATE_WORDS[state],
      ...(error === null ? {} : { error: renderFailure(error, sight) }),
    }));
    return { items, next_cursor: page.nextCursor };
  });
}

export function writeBatchRoutes(http: Http, engine: Engine, { admission, simulation }: Intake): void {
  http.post('/batches', { schema: createSchema, ...needs('jobs:write'), ...bodyMayBeAbsent }, async (request, reply) => {
    const { owner, identity } = callerOf(request);
    refuseSelfRegistered(identity);
    const { id, isNew } = await createBatch(engine, { owner, id: request.body.batch_id ?? randomUUID() });
    return reply.code(isNew ? 201 : 200).send(render(id, await readBatchProgress(engine, { ...owner, id })));
  });
  http.post('/batches/:batch_id/close', { schema: closeSchema, ...needs('jobs:write') }, async (request) => {
    const { owner, identity } = callerOf(request);
    refuseSelfRegistered(identity);
    const { batch_id: id } = request.params;
    await finishBatch(engine, { owner, id });
    return render(id, await readBatchProgress(engine, { ...owner, id }));
  });
  const { maxPayloadBytes } = engine.limits;
  const json = { ...jsonLimits(submissionBytes(maxPayloadBytes)), values: BATCH_VALUES };
  const config = { ...needs('jobs:write').config, json };
  const options = { schema: putSchema, config, ...judgedByService, bodyLimit: batchBytes(maxPayloadBytes) };
  http.put('/batches/:batch_id/parts/:part', options, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { batch_id: id } = request.params;
    const part = readPart(request.params.part);
    const { submissions, refused, atomic } = await readBatch(request.body, askerOf(request));
    if (!atomic)
      throw invalidRequest({ field: 'atomic', code: 'INVALID_VALUE', message: 'A piece of a batch is always atomic. Leave it out.' });
    await putPiece(engine, {
      owner,
      id,
      part,
      sent: request.body.jobs,
      submissions,
      refused: new Map([...(await refuseForeignDependencies(engine, owner, submissions)), ...refused]),
      actor,
      terms: { requestId: request.id, knownQueuesOnly: true, simulation },
      admission,
      signal: signalOf(reply),
    }).catch((error: unknown) => {
      throw inSentNames(error, jobOf(error, request.body.jobs));
    });
    return { batch_id: id.toLowerCase(), part, jobs: submissions.length };
  });
}

/** The job of a piece that the error is about. */
function jobOf(error: unknown, jobs: readonly unknown[]): unknown {
  const field = isAppError(error) ? error.details[0]?.field : undefined;
  return jobs[Number(/^jobs\[(\d+)\]/.exec(field ?? '')?.[1])];
}

/** This route checks its parameters itself, because the service checks the body. */
function readPart(given: unknown): number {
  const part = /^\d{1,6}$/.test(String(given)) ? Number(given) : -1;
  if (part >= 0 && part <= MAX_PART) return part;
  throw invalidRequest({ field: 'part', code: 'OUT_OF_RANGE', message: `part must be a whole number from 0 to ${MAX_PART}` });
}
