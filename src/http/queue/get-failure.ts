import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { inspectFailure } from '../../services/inspect-failure.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { renderDetails } from './render-failure.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { FailureDetails } from './schemas/failure.ts';
import { JobParams } from './schemas/shapes.ts';

const schema = {
  operationId: 'getFailure',
  summary: 'Get the failure of a job',
  description: 'Why a job failed, is in the dead letter or waits for its next attempt. A job that did not fail is 404.',
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
    const details = await inspectFailure(engine, request.params.id, { orgId, includeAllAttempts });
    if (details === null) throw noSuchJob(request.params.id);
    return renderDetails(details, sight);
  });
}
