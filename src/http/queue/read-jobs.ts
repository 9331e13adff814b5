import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { firstArtifacts } from '../../services/artifacts/read-artifacts.ts';
import { readJob } from '../../services/jobs/read-job.ts';
import { searchJobs } from '../../services/jobs/search-jobs.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { renderArtifact } from './artifacts.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob } from './operation.ts';
import { type JobQuestion, readSearch, readSearchQuery } from './read-filter.ts';
import { renderJob } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobStatus } from './schemas/job.ts';
import { JobSearch, JobSearchQuery, JobSearchResult } from './schemas/search.ts';
import { JobParams, named } from './schemas/shapes.ts';

/** GET /queue/v1/jobs/{id}/artifacts returns all of them. */
const MAX_SHOWN_ARTIFACTS = 100;

const getSchema = {
  operationId: 'getJob',
  summary: 'Get a job',
  description: 'Returns one job, with its result and its history on request.',
  params: JobParams,
  querystring: Type.Object(
    {
      include_result: Type.Optional(
        Type.Boolean({ default: false, description: 'Add the result, if the job has one, and its first 100 artifacts.' }),
      ),
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
    const shown = renderJob(job, sight);
    if (!includeResult) return shown;
    const files = job.startedAt === null ? [] : await firstArtifacts(engine, { ...owner, jobId: job.id, limit: MAX_SHOWN_ARTIFACTS });
    return { ...shown, artifacts: files.map(renderArtifact) };
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
