import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { readJob } from '../../services/jobs/read-job.ts';
import { searchJobs } from '../../services/jobs/search-jobs.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob } from './operation.ts';
import { type JobQuestion, readSearch, readSearchQuery } from './read-filter.ts';
import { renderJob } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobStatus } from './schemas/job.ts';
import { JobSearch, JobSearchQuery, JobSearchResult } from './schemas/search.ts';
import { JobParams, named } from './schemas/shapes.ts';

const getSchema = {
  operationId: 'getJob',
  summary: 'Get a job',
  description: 'Returns one job, with its result and its history on request.',
  params: JobParams,
  querystring: Type.Object(
    {
      include_result: Type.Optional(Type.Boolean({ default: false, description: 'Add the result, if the job has one.' })),
      include_history: Type.Optional(Type.Boolean({ default: false, description: 'Add every state change.' })),
    },
    { additionalProperties: false },
  ),
  response: { 200: answer(JobStatus, 'The job.'), ...errorResponses(404) },
};

export function getJobRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id', { schema: getSchema, ...needs('jobs:read') }, async (request) => {
    const { owner, sight } = callerOf(request);
    const { include_result: includeResult, include_history: includeHistory } = request.query;
    const job = await readJob(engine, { ...owner, id: request.params.id, includeResult, includeHistory });
    if (job === null) throw noSuchJob(request.params.id);
    return renderJob(job, sight);
  });
}

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
  const search = async (request: FastifyRequest, reply: FastifyReply, question: JobQuestion) => {
    const { owner, sight } = callerOf(request);
    const found = await searchJobs(engine, { ...owner, ...question, signal: signalOf(reply) });
    return {
      jobs: found.jobs.map((job) => renderJob(job, sight)),
      total_count: found.totalCount,
      total_is_estimate: found.totalIsEstimate,
      next_cursor: found.nextCursor,
      has_more: found.hasMore,
    };
  };
  http.post('/jobs/search', { schema: searchSchema, ...needs('jobs:read'), ...bodyMayBeAbsent }, (request, reply) =>
    search(request, reply, readSearch(request.body)),
  );
  http.get('/jobs', { schema: listSchema, ...needs('jobs:read') }, (request, reply) =>
    search(request, reply, readSearchQuery(request.query)),
  );
}
