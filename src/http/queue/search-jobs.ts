import type { FastifyRequest } from 'fastify';
import type { Engine } from '../../engine/engine.ts';
import { searchJobs } from '../../services/jobs/search-jobs.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent, callerOf, needs } from './operation.ts';
import { type JobQuestion, readSearch, readSearchQuery } from './read-filter.ts';
import { renderJob } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobSearch, JobSearchQuery, JobSearchResult } from './schemas/search.ts';
import { named } from './schemas/shapes.ts';

const response = { 200: answer(JobSearchResult, 'A page of jobs.'), ...errorResponses() };

const description =
  'Returns a page of the jobs that match every filter. No job appears on two pages, even if jobs are added or removed between them.';

const searchSchema = {
  operationId: 'searchJobs',
  summary: 'Search jobs',
  description,
  body: named(JobSearch),
  response,
};

const listSchema = {
  operationId: 'listJobs',
  summary: 'List jobs',
  description: `${description} It has the same filters as the POST form. Repeat a parameter to give several values.`,
  querystring: JobSearchQuery,
  response,
};

export function searchJobsRoutes(http: Http, engine: Engine): void {
  const search = async (request: FastifyRequest, question: JobQuestion) => {
    const { orgId, sight } = callerOf(request);
    const found = await searchJobs(engine, { orgId, ...question });
    return {
      jobs: found.jobs.map((job) => renderJob(job, sight)),
      total_count: found.totalCount,
      total_is_estimate: found.totalIsEstimate,
      next_cursor: found.nextCursor,
      has_more: found.hasMore,
    };
  };
  http.post('/jobs/search', { schema: searchSchema, ...needs('jobs:read'), ...bodyMayBeAbsent }, (request) =>
    search(request, readSearch(request.body)),
  );
  http.get('/jobs', { schema: listSchema, ...needs('jobs:read') }, (request) =>
    search(request, readSearchQuery(request.query)),
  );
}
