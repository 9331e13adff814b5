import { Readable } from 'node:stream';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { type ReportRow, streamReports } from '../../services/execution/execution-reports.ts';
import type { Http } from '../door.ts';
import { signalOf } from '../shared/request-signal.ts';
import { named } from '../shared/shapes.ts';
import { callerOf } from './operation.ts';
import { readReportsQuery } from './read-filter.ts';
import { chooseFormat, FORMATS, refuseEvents } from './report-formats.ts';
import { ExecutionReportRow, ExecutionReports, ExecutionReportsQuery } from './schemas/lists.ts';

const schema = {
  operationId: 'listExecutionReports',
  summary: 'Report on all jobs',
  description:
    'Returns every matching job of the client with its state and outcome, newest first. The format is one JSON document with totals at the end, one JSON document per line (NDJSON), or CSV. The parameter format or the Accept header selects it. Rows are sent as they are read, so a response that breaks off is incomplete.',
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

const config = { scopes: ['jobs:read'] as const, offers: [FORMATS.ndjson.mediaType, FORMATS.csv.mediaType] };

export function listReportsRoute(http: Http, context: ExecutionContext): void {
  http.get('/reports', { schema, config }, async (request, reply) => {
    const format = chooseFormat(request.query.format, request.headers.accept);
    const filter = readReportsQuery(request.query);
    refuseEvents(format, filter.withEvents);
    const rows = await begun(streamReports(context, { caller: callerOf(request), filter, signal: signalOf(reply) }));
    const { contentType, text } = FORMATS[format];
    return reply.type(contentType).send(Readable.from(text(rows), { objectMode: false }) as never);
  });
}

/** Reads the first page before the response starts, so that an error there still gets an error response. */
async function begun(rows: AsyncGenerator<ReportRow[]>): Promise<AsyncIterable<ReportRow[]>> {
  const first = await rows.next();
  return (async function* () {
    if (first.done === true) return;
    yield first.value;
    yield* rows;
  })();
}
