import { AppError } from '../../core/errors.ts';
import { takePermit } from '../../ledger/ingest/take-permit.ts';
import type { IngestContext } from './context.ts';

/** Counts a request if a limit is configured, and throws QUOTA_EXCEEDED beyond it. */
export async function countRequest({ engine, settings }: IngestContext, orgId: string): Promise<void> {
  const { requestsPerMinute: maximum } = settings;
  if (maximum === null) return;
  const { used, endsInMs } = await takePermit(engine.database.api, orgId);
  if (used <= maximum) return;
  const retryAfterMs = Math.max(1_000, Math.ceil(endsInMs / 1_000) * 1_000);
  throw new AppError('QUOTA_EXCEEDED', {
    message: `The org has used its ${maximum} requests to /jobs of this minute. Retry after the time in the Retry-After header.`,
    quota: { limit: 'ingest_requests_per_minute', current: maximum, maximum, retryAfterMs },
  });
}
