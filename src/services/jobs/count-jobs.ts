import { type DurationInput, durationMs } from '../../core/duration.ts';
import { invalidRequest } from '../../core/errors.ts';
import { Issues } from '../../core/issues.ts';
import { readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { BREAKDOWNS, type Breakdown, countJobs as countInLedger, type JobCounts } from '../../ledger/reads/count-jobs.ts';

export type { JobCounts };

export type CountParams = {
  orgId: string;
  timeRange?: DurationInput;
  breakdownBy?: readonly Breakdown[];
  signal?: AbortSignal;
};

const DEFAULT_RANGE_MS = 3_600_000;

/** Returns counts, rates and latencies of an org. Finished jobs count if they ended within `timeRange`, by default one hour. */
export async function countJobs(engine: Engine, { orgId, timeRange, breakdownBy = [], signal }: CountParams): Promise<JobCounts> {
  const sinceMs = timeRange === undefined ? DEFAULT_RANGE_MS : durationMs(timeRange, 'timeRange');
  if (sinceMs === 0)
    throw invalidRequest({
      field: 'timeRange',
      code: 'INVALID_DURATION',
      message: 'timeRange must be greater than zero',
    });
  const issues = new Issues();
  if (!Array.isArray(breakdownBy)) issues.add('breakdownBy', 'INVALID_TYPE', 'must be a list');
  else for (const [index, word] of breakdownBy.entries()) readWord(word, { field: `breakdownBy[${index}]`, words: BREAKDOWNS }, issues);
  issues.throwIfAny();
  return engine.searches.run(orgId, () => countInLedger(engine.database.reads.of(orgId), orgId, { sinceMs, breakdownBy }), signal);
}
