import type { ExecutionContext } from '../../services/execution/context.ts';
import { findExecutions } from '../../services/execution/list-executions.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { needs } from '../shared/route-options.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf } from './operation.ts';
import { readListQuery } from './read-filter.ts';
import { renderExecution } from './render.ts';
import { ExecutionJobList, ExecutionListQuery } from './schemas/lists.ts';

const schema = {
  operationId: 'listExecutions',
  summary: 'List jobs',
  description:
    'Returns the jobs of the client that match every filter, newest first, one page at a time. For a list of values, repeat a parameter or separate the values by commas.',
  querystring: ExecutionListQuery,
  response: { 200: answer(ExecutionJobList, 'A page of jobs.') },
};

export function listJobsRoute(http: Http, context: ExecutionContext): void {
  http.get('/jobs', { schema, ...needs('jobs:read') }, async (request, reply) => {
    const { filter, page } = readListQuery(request.query);
    const { jobs, nextCursor, hasMore } = await findExecutions(context, callerOf(request), filter, { ...page, signal: signalOf(reply) });
    return { jobs: jobs.map(({ view }) => renderExecution(view)), next_cursor: nextCursor, has_more: hasMore };
  });
}
