import type { Engine } from '../../engine/engine.ts';
import { explainJob } from '../../services/jobs/explain-job.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { renderExplanation } from './render-explanation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { Explanation } from './schemas/explanation.ts';
import { JobParams } from './schemas/shapes.ts';

const schema = {
  operationId: 'explainJob',
  summary: 'Explain why a job is not running',
  description: 'Returns the reasons why a job is not running as one sentence, as a list of obstacles and as facts.',
  params: JobParams,
  response: { 200: answer(Explanation, 'The explanation.'), ...errorResponses(404) },
};

export function explainJobRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id/explain', { schema, ...needs('jobs:read') }, async (request) => {
    const explanation = await explainJob(engine, { orgId: callerOf(request).orgId, id: request.params.id });
    if (explanation === null) throw noSuchJob(request.params.id);
    return renderExplanation(explanation);
  });
}
