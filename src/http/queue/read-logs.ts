import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { readLogs } from '../../services/jobs/read-logs.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { JobLogs, LogsQuery } from './schemas/log.ts';
import { JobParams } from './schemas/shapes.ts';

const schema = {
  operationId: 'readLogs',
  summary: 'Read the log lines of a job',
  description:
    'Returns the lines that the handler of the job logged, oldest first. The lines of the ten newest attempts are kept, at most 1000 lines and 1 MB of each.',
  params: JobParams,
  querystring: LogsQuery,
  response: { 200: answer(JobLogs, 'A page of lines.'), ...errorResponses(404) },
};

export function readLogsRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id/logs', { schema, ...needs('jobs:read') }, async (request) => {
    const { owner } = callerOf(request);
    const { level: levels, cursor, limit } = request.query;
    const page = await readLogs(engine, { ...owner, id: request.params.id, levels, cursor, limit });
    if (page === null) throw noSuchJob(request.params.id);
    const lines = page.lines.map(({ at, ...line }) => ({ ...line, timestamp: formatTimestamp(at) }));
    return { job_id: page.jobId, lines, next_cursor: page.nextCursor };
  });
}
