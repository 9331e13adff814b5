import { Type } from 'typebox';
import { AppError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { inspectFailure } from '../../services/jobs/inspect-failure.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { renderDetails } from './render-failure.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { FailureDetails } from './schemas/failure.ts';
import { JobParams } from './schemas/shapes.ts';

const schema = {
  operationId: 'getFailure',
  summary: 'Get the failure of a job',
  description:
    'Returns the newest failure of a job, even while it waits for its next attempt or runs again. A job that has not failed gives 404, like a job that does not exist.',
  params: JobParams,
  querystring: Type.Object(
    { include_all_attempts: Type.Optional(Type.Boolean({ default: false, description: 'Add every attempt.' })) },
    { additionalProperties: false },
  ),
  response: { 200: answer(FailureDetails, 'The failure.'), ...errorResponses(404) },
};

export function getFailureRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id/failure', { schema, ...needs('failures:read') }, async (request) => {
    const { orgId, sight } = callerOf(request);
    const { include_all_attempts: includeAllAttempts } = request.query;
    const { id } = request.params;
    const inspected = await inspectFailure(engine, { orgId, id, includeAllAttempts });
    if (inspected.kind === 'not_found') throw noSuchJob(id);
    if (inspected.kind === 'never_failed')
      throw new AppError('NOT_FOUND', { message: `Job ${id} exists and has not failed.` });
    return renderDetails(inspected.details, sight);
  });
}
