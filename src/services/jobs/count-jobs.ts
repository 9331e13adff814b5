import { type DurationInput, parseDuration } from '../../core/duration.ts';
import { AppError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { type Breakdown, countJobs as countInLedger, type JobCounts } from '../../ledger/reads/count-jobs.ts';

export type { JobCounts };

export type CountParams = {
  orgId: string;
  timeRange?: DurationInput;
  breakdownBy?: readonly Breakdown[];
};

const DEFAULT_RANGE_MS = 3_600_000;

/** Counts, rates and latencies of an org. `timeRange` is how far back finished jobs count; by default one hour. */
export function countJobs(engine: Engine, { orgId, timeRange, breakdownBy }: CountParams): Promise<JobCounts> {
  const sinceMs = timeRange === undefined ? DEFAULT_RANGE_MS : readRange(timeRange);
  return countInLedger(engine.database.api, orgId, { sinceMs, breakdownBy });
}

function readRange(timeRange: DurationInput): number {
  const parsed = parseDuration(timeRange);
  if (parsed.ok && parsed.ms > 0) return parsed.ms;
  const message = parsed.ok ? 'timeRange must be greater than zero' : `timeRange: ${parsed.message}`;
  throw new AppError('INVALID_REQUEST', {
    message,
    details: [{ field: 'timeRange', code: 'INVALID_DURATION', message }],
  });
}
