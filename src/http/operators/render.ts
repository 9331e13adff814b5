import { lookUp } from '../../core/dictionary.ts';
import { maskedUrl } from '../../core/ingest/masking.ts';
import { RESOURCE_STATUSES } from '../../core/ingest/status.ts';
import type { StreamEntry } from '../../core/ingest/stream.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { IngestResourceRow } from '../../services/ingest/read-jobs.ts';

export function renderResource(row: IngestResourceRow) {
  const result = row.result === null ? {} : (JSON.parse(row.result) as Record<string, unknown>);
  const text = (name: string): string | null => ((value) => (typeof value === 'string' ? value : null))(lookUp(result, name));
  const number = (name: string): number | null => ((value) => (typeof value === 'number' ? value : null))(lookUp(result, name));
  return {
    id: row.id,
    url: maskedUrl(row.url),
    status: RESOURCE_STATUSES[row.state],
    attempts: row.attempts,
    http_status: number('httpStatus') ?? statusOf(row),
    bytes: number('bytes'),
    sha256: text('sha256'),
    content_type: text('contentType'),
    object_key: text('objectKey'),
    error: row.error,
    proxy: text('proxy') ?? row.lastProxy,
    started_at: row.startedAt === null ? null : formatTimestamp(row.startedAt),
    finished_at: row.finishedAt === null ? null : formatTimestamp(row.finishedAt),
    task_id: row.taskId,
  };
}

/** Failures of earlier versions have their status in the code only, such as HTTP_403. */
function statusOf({ lastStatus, error }: IngestResourceRow): number | null {
  const digits = lastStatus ?? /^HTTP_(\d{3})$/.exec(error?.code ?? '')?.[1];
  return digits === undefined ? null : Number(digits);
}

export const renderLine = ({ offset, at, jobId, body }: StreamEntry): string => {
  const { level, event, resource_id, message, details } = body;
  const line = { offset, at: formatTimestamp(at), level, event, job_id: jobId, resource_id, message, details };
  return `${JSON.stringify(line)}\n`;
};
