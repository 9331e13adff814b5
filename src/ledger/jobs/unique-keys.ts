// The function `take_unique` of migration 0022 decides about each job with a unique key, inside the statement that writes it (decision 0053).
import type { JobUnique } from '../../core/unique.ts';
import { keyScopeOf, keyScopeText } from './idempotency-keys.ts';
import type { JobToWrite } from './job-to-write.ts';
import { type KeyMode, mayBeHeldText } from './key-buckets.ts';

/** What became of a submission with a unique key. */
export type UniqueOutcome = 'new' | 'replaced' | 'updated' | 'skipped' | 'held';

const SCOPE = keyScopeText('i.job_type', 'i.project_id');
const KEY = `(i.extra->'unique'->>'key')`;

/** Whether another transaction may be about to commit the unique key of row `i`. */
export const uniqueHeldText = (mode: KeyMode): string => mayBeHeldText(mode, { scope: `'unique ' || ${SCOPE}`, key: KEY });

/**
 * The rows of `fresh`, with what became of their unique keys. The keys are sorted, so that two statements cannot deadlock. All
 * idempotency keys are written before the first unique key, because the sort needs all rows.
 */
export const judgedText = (mode: KeyMode): string => `, judged AS MATERIALIZED (
  SELECT i.*, u.outcome, u.unique_job FROM (SELECT * FROM fresh i ORDER BY i.org_id, ${SCOPE}, ${KEY}) i
  LEFT JOIN LATERAL millrace.take_unique(${mode === 'leave_held'}, i.org_id, ${SCOPE},
    CASE WHEN NOT i.is_held AND (i.existing_id IS NULL OR i.existing_id = i.id) THEN i.extra->'unique' END,
    i.seq, i.id, i.payload, i.extra->>'payload_bytes', i.extra->>'actor', i.key) u ON true
)`;

/** The rule of a job as the function reads it. */
export const ruleOf = (unique: JobUnique): Record<string, unknown> => ({
  key: unique.key,
  until: unique.until,
  on_conflict: unique.onConflict,
  ...(unique.onConflict === 'debounce' ? { delay_ms: unique.delayMs, max_ms: unique.maxMs } : {}),
});

/** Names the unique key of a job over all orgs; null for a job without one. */
export const uniqueKeyOf = ({ orgId, job }: JobToWrite): string | null =>
  job.unique === undefined ? null : `${orgId}\n${keyScopeOf(job)}\n${job.unique.key}`;

/** Divides the jobs, in order, so that no key is twice in a part. A statement does not see the jobs that it writes itself. */
export function apartByUniqueKey(jobs: JobToWrite[]): JobToWrite[][] {
  if (!jobs.some(({ job }) => job.unique !== undefined)) return [jobs];
  const parts: JobToWrite[][] = [];
  let part: JobToWrite[] = [];
  let keys = new Set<string>();
  for (const entry of jobs) {
    const key = uniqueKeyOf(entry);
    if (key !== null && keys.has(key)) {
      parts.push(part);
      part = [];
      keys = new Set();
    }
    if (key !== null) keys.add(key);
    part.push(entry);
  }
  return part.length === 0 ? parts : [...parts, part];
}
