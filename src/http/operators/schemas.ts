import { Type } from 'typebox';
import { INGEST_STATUSES } from '../../core/ingest/status.ts';
import { NestedError } from '../shared/nested-error.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word } from '../shared/shapes.ts';

const Status = word(INGEST_STATUSES, 'Queued until the first download begins, in progress until all have ended.');

const ErrorOrNull = Type.Unsafe<{ code: string; message: string } | null>({
  type: ['object', 'null'],
  properties: { code: { type: 'string', examples: ['HTTP_403'] }, message: { type: 'string' } },
  required: ['code', 'message'],
  description: 'The newest error; null if there is none.',
});

export const IngestJobView = shape('IngestJob', {
  job_id: Type.String(),
  job_type: Type.String(),
  status: Status,
  org_id: Type.String(),
  org: Type.String({ description: 'The slug of the org.' }),
  tenant: textOrNull('The tenant of the request.'),
  created_at: timestamp('When the job was accepted.'),
  updated_at: timestamp('When the job or one of its downloads last ended or changed.'),
  resource_count: Type.Integer({ description: 'The resources of the manifest.' }),
  resource_total: Type.Integer({ description: 'The downloads: fewer if the handler left resources out.' }),
  resource_completed: Type.Integer(),
  resource_failed: Type.Integer(),
  bytes: Type.Integer({ description: 'The bytes of the completed downloads.' }),
  manifest_key: textOrNull('Where the metadata is. Of a direct producer: what it gave, or null.'),
  manifest_sha256: Type.String({ description: 'Of manifest.json, in hex. Empty if a direct producer published the tasks.' }),
  producer: textOrNull('The direct producer that published the tasks; null if the job was a request.'),
  producer_job_id: textOrNull('The id under which the producer published the tasks.'),
  log_cursor: Type.Object({ stream: Type.Literal('jobs.logs'), offset: Type.Integer() }),
  last_error: ErrorOrNull,
  finalizer: Type.Unsafe<'in_progress' | 'completed' | 'failed' | null>({
    type: ['string', 'null'],
    enum: ['in_progress', 'completed', 'failed', null],
    description: 'The last step of the handler; null if it has none, or has not begun.',
  }),
});

export const IngestJobList = shape('IngestJobList', {
  items: Type.Array(named(IngestJobView)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

export const IngestResourceView = shape('IngestResource', {
  id: Type.String(),
  url: Type.String(),
  status: Status,
  attempts: Type.Integer({ description: 'How many attempts sent a request. Time spent waiting for the host is not an attempt.' }),
  http_status: Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description: 'The last status that the last attempt received, also if it failed; null without a response.',
  }),
  bytes: Type.Unsafe<number | null>({ type: ['integer', 'null'] }),
  sha256: textOrNull('Of the stored bytes, in hex.'),
  content_type: textOrNull('As the server named it.'),
  object_key: textOrNull('Where the download is stored.'),
  error: ErrorOrNull,
  proxy: textOrNull('The proxy pool that the last attempt tried last, also if it failed; null without one.'),
  started_at: timestampOrNull('When the last attempt began; null while attempts is 0.'),
  finished_at: timestampOrNull('When the download ended.'),
  task_id: Type.String({ description: 'The id of the job that downloads it.' }),
});

export const IngestResourceList = shape('IngestResourceList', {
  items: Type.Array(named(IngestResourceView)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

export const LogEnvelope = shape(
  'LogEnvelope',
  {
    offset: Type.Integer({ description: 'The place of the line in the stream jobs.logs.' }),
    at: timestamp('When it was written.'),
    level: word(['info', 'warn', 'error']),
    event: Type.String(),
    job_id: Type.String(),
    resource_id: Type.Optional(Type.String()),
    message: Type.String(),
    details: Type.Optional(Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true })),
  },
  { description: 'One line of the response.' },
);

export const Retried = shape('RetriedResources', { retried: Type.Integer({ description: 'How many downloads begin again.' }) });
export const Cancelled = shape('CancelledResources', {
  cancelled: Type.Integer({ description: 'How many downloads are cancelled or asked to stop.' }),
});

const Component = Type.Object({ status: word(['healthy', 'degraded', 'unhealthy']), message: Type.Optional(Type.String()) });

export const OperatorHealth = shape('OperatorHealth', {
  status: word(['healthy', 'degraded', 'unhealthy']),
  components: Type.Object({ api: Component, ledger: Component, stream: Component, storage: Component, proxy_pools: Component }),
});

export const HostPage = shape('DownloadHosts', {
  items: Type.Array(
    Type.Object({
      host: Type.String({ description: 'With the port, unless it is the default of the scheme.' }),
      requests: Type.Integer(),
      bytes: Type.Integer(),
      errors: Type.Integer(),
      running: Type.Integer({ description: 'Requests in flight.' }),
      concurrency: Type.Integer({ description: 'How many may be in flight now.' }),
      rate: Type.Unsafe<number | null>({ type: ['number', 'null'], description: 'Starts per second; null: any number.' }),
      backoff_until: timestampOrNull('No request starts before this time.'),
      paused: Type.Boolean(),
    }),
  ),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

export const PoolPage = shape('ProxyPools', {
  items: Type.Array(
    Type.Object({
      pool: Type.String(),
      healthy: Type.Boolean(),
      paused: Type.Boolean(),
      addresses: Type.Array(
        Type.Object({
          address: Type.String({ description: 'Without credentials.' }),
          score: Type.Number(),
          ejected_until: timestampOrNull('The address is not used before this time.'),
          successes: Type.Integer(),
          failures: Type.Integer(),
        }),
      ),
    }),
  ),
  next_cursor: textOrNull('Always null: all pools are on one page.'),
});

export const Paused = shape('PausedTarget', { name: Type.String(), paused: Type.Boolean() });

export const JobParams = Type.Object({ job_id: Type.String({ description: 'The id of the ingest job.' }) });

export const Reason = Type.Object(
  { reason: Type.Optional(Type.String({ maxLength: 1_000, description: 'Why; it is written to the log of the job.' })) },
  { additionalProperties: false },
);

export const PAGE = {
  cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the previous page. Opaque.' })),
  limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100, description: 'Page size.' }),
};

const MEANINGS = {
  400: 'The request is not valid (INVALID_REQUEST).',
  401: 'The operator token is missing or not valid (UNAUTHORIZED).',
  403: 'The key lacks the scope operator (FORBIDDEN).',
  404: 'It does not exist, or it belongs to another org (NOT_FOUND).',
  409: 'The state does not allow the request (CONFLICT).',
  413: 'The body is too large (PAYLOAD_TOO_LARGE).',
  429: 'A limit is reached (RATE_LIMITED).',
  500: 'An unexpected error (INTERNAL_ERROR).',
  503: 'The service is unavailable (UNAVAILABLE).',
} as const;

export const operatorErrors = (): Record<number, unknown> =>
  Object.fromEntries(Object.entries(MEANINGS).map(([status, description]) => [status, named(NestedError, { description })]));
