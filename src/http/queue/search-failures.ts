import type { Engine } from '../../engine/engine.ts';
import { searchFailures } from '../../services/jobs/search-failures.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent, callerOf, needs } from './operation.ts';
import { readFailureSearch } from './read-filter.ts';
import { renderFailures } from './render-failure.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { FailureSearch, FailureSearchResult } from './schemas/failure.ts';
import { named } from './schemas/shapes.ts';

const schema = {
  operationId: 'searchFailures',
  summary: 'Search failures',
  description:
    'Jobs that are FAILED, DEAD_LETTER or RETRYING now, the newest failure first, with how many there are by category, code and type.',
  body: named(FailureSearch),
  response: { 200: answer(FailureSearchResult, 'A page of failures.'), ...errorResponses() },
};

export function searchFailuresRoute(http: Http, engine: Engine): void {
  http.post('/failures/search', { schema, ...needs('failures:read'), ...bodyMayBeAbsent }, async (request) => {
    const { orgId, sight } = callerOf(request);
    return renderFailures(await searchFailures(engine, { orgId, ...readFailureSearch(request.body) }), sight);
  });
}
