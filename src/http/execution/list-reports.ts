import { Readable } from 'node:stream';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { type ReportRow, streamReports } from '../../services/execution/stream-reports.ts';
import type { Http } from '../door.ts';
import { named } from '../shared/shapes.ts';
import { callerOf, needs } from './operation.ts';
import { readReportsQuery } from './read-filter.ts';
import { chooseFormat, FORMATS, refuseEvents } from './report-formats.ts';
import { ExecutionReportRow, ExecutionReports, ExecutionReportsQuery } from './schemas/lists.ts';

const schema = {
  operationId: 'listExecutionReports',
  summary: 'Report on all jobs',
  description:
    'Every job of the client that matches, with its state and outcome, newest first: as one JSON document with totals at its end, as a JSON document for each job on a line of its own (NDJSON), or as CSV. Named by format, or by the Accept header. Sent as it is read, however many there are; an answer that breaks off was not finished.',
  querystring: ExecutionReportsQuery,
  response: {
    200: {
      description: 'The report.',
      content: {
        'application/json': { schema: named(ExecutionReports) },
        'application/x-ndjson': { schema: named(ExecutionReportRow) },
        'text/csv': { schema: { type: 'string' } },
      },
    },
  },
} as const;

const { scopes } = needs('jobs:read').config;
const config = { scopes, offers: [FORMATS.ndjson.mediaType, FORMATS.csv.mediaType] };

export function listReportsRoute(http: Http, context: ExecutionContext): void {
  http.get('/reports', { schema, config }, async (request, reply) => {
    const format = chooseFormat(request.query.format, request.headers.accept);
    const filter = readReportsQuery(request.query);
    refuseEvents(format, filter.withEvents);
    const rows = await begun(streamReports(context, callerOf(request), filter));
    const { contentType, text } = FORMATS[format];
    return reply.type(contentType).send(Readable.from(text(rows), { objectMode: false }) as never);
  });
}

/** Reads the first page at once: what goes wrong there is still an error answer, not a stream that breaks off. */
async function begun(rows: AsyncGenerator<ReportRow[]>): Promise<AsyncIterable<ReportRow[]>> {
  const first = await rows.next();
  return (async function* () {
    if (first.done === true) return;
    yield first.value;
    yield* rows;
  })();
}
