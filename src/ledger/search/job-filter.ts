import { type Priority, priorityNumber } from '../../core/priority.ts';
import type { JobState } from '../../core/states.ts';

export type JobFilter = {
  types?: readonly string[];
  states?: readonly JobState[];
  priorities?: readonly Priority[];
  /** Every tag named must be there with exactly this value. */
  tags?: Readonly<Record<string, string>>;
  createdAfter?: Date;
  createdBefore?: Date;
  updatedAfter?: Date;
  ids?: readonly string[];
};

/** What a filter asks of `j`, with $2 to $9; $1 is the org. A filter that is absent asks nothing. */
export const MATCHES = `($2::text[] IS NULL OR j.job_type = ANY ($2))
  AND ($3::text[] IS NULL OR j.state = ANY ($3::millrace.job_state[]))
  AND ($4::int2[] IS NULL OR j.priority = ANY ($4))
  AND ($5::jsonb IS NULL OR j.tags @> $5)
  AND ($6::timestamptz IS NULL OR j.created_at > $6)
  AND ($7::timestamptz IS NULL OR j.created_at < $7)
  AND ($8::timestamptz IS NULL OR j.updated_at > $8)
  AND ($9::uuid[] IS NULL OR j.id = ANY ($9))`;

/** $1 to $9. */
export function filterValues(orgId: string, filter: JobFilter): unknown[] {
  return [
    orgId,
    filter.types ?? null,
    filter.states ?? null,
    filter.priorities?.map(priorityNumber) ?? null,
    // Jobs without tags contain no map at all, not even an empty one.
    Object.keys(filter.tags ?? {}).length === 0 ? null : JSON.stringify(filter.tags),
    filter.createdAfter ?? null,
    filter.createdBefore ?? null,
    filter.updatedAfter ?? null,
    filter.ids ?? null,
  ];
}
