import type { Engine } from '../../engine/engine.ts';
import { cancelJob } from '../../services/jobs/cancel-job.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob } from './operation.ts';
import { renderError } from './render.ts';
import { CancellationNotFound, CancellationRequest, CancellationResult } from './schemas/cancellation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobParams, named } from './schemas/shapes.ts';
import { STATE_WORDS } from './words.ts';

const schema = {
  operationId: 'cancelJob',
  summary: 'Cancel a job',
  description:
    'A job that nobody works on is cancelled at once. A running one is asked to stop (CANCEL_REQUESTED): at its next checkpoint, or now with force. A job that has ended stays as it is (ALREADY_COMPLETE).',
  params: JobParams,
  body: named(CancellationRequest),
  response: {
    ...errorResponses(),
    200: answer(CancellationResult, 'What became of the request.'),
    404: answer(CancellationNotFound, 'There is no such job in the org of the key.'),
  },
};

export function cancelJobRoute(http: Http, engine: Engine): void {
  http.post('/jobs/:id/cancel', { schema, ...needs('jobs:cancel'), ...bodyMayBeAbsent }, async (request, reply) => {
    const { orgId, actor } = callerOf(request);
    const { reason = null, force = false } = request.body;
    const { jobId, status, previousState, message } = await cancelJob(engine, request.params.id, {
      ...{ orgId, actor, reason, force },
    });
    const body = {
      job_id: jobId,
      previous_state: previousState === null ? null : STATE_WORDS[previousState],
      message,
    };
    if (status !== 'NOT_FOUND') return reply.send({ ...body, status });
    return reply.code(404).send({ ...body, status, ...renderError(noSuchJob(jobId), request.id) });
  });
}
