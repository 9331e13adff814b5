import type { Requester } from '../../core/governance/audit-action.ts';
import type { Owner } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import { auditedText } from '../audit/audited-text.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { readyText, withdrawnText } from '../tokens.ts';
import { keyedTypeText } from './idempotency-keys.ts';

/** The members of an unfinished job that may change. Undefined keeps a member, and null clears it. */
export type JobChange = {
  type?: string;
  priority?: number;
  tags?: Readonly<Record<string, string>> | null;
  correlationId?: string | null;
  callbackUrl?: string | null;
};

export type UpdatedJob =
  | { kind: 'updated' }
  | { kind: 'not_found' }
  /** Its type has one of the `reservedPrefixes`, and the change affects members that such jobs must keep. */
  | { kind: 'reserved'; type: string }
  | { kind: 'too_late'; state: JobState; field: 'job' | 'priority' | 'type' };

// A job that a worker has claimed, now or in an earlier attempt, keeps its type and priority. The update writes no event and no
// `updated_at`, because the state does not change. A ready job that changes its range gets a new token in place of the old one. A job
// that stays in its range keeps its token, so that it waits only once.
const UPDATE = statement(
  'update_job',
  `WITH locked AS MATERIALIZED (
  SELECT j.seq, j.org_id, j.state, j.completed_at IS NOT NULL AS is_final,
    j.state = 'running' OR j.worker_id IS NOT NULL OR j.attempts_started > 0 AS has_started, j.queue, j.job_type, j.priority, j.order_key, j.lifetime_deadline, j.limit_id,
    EXISTS (SELECT FROM unnest($11::text[]) AS r(prefix) WHERE starts_with(j.job_type, r.prefix)) AS is_reserved
  FROM millrace.jobs j
  WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND ($12::uuid IS NULL OR j.project_id = $12::uuid) FOR NO KEY UPDATE
), allowed AS MATERIALIZED (
  SELECT *, state = 'scheduled' AND (coalesce($3::text, job_type), coalesce($4::int2, priority)) <> (job_type, priority) AS moves
  FROM locked
  WHERE NOT is_final AND NOT (has_started AND ($3::text IS NOT NULL OR $4::int2 IS NOT NULL))
    AND NOT (is_reserved AND ($3::text IS NOT NULL OR $4::int2 IS NOT NULL OR $5::bool))
), changed AS (
  UPDATE millrace.jobs j SET job_type = coalesce($3::text, j.job_type),
    keyed_type = CASE WHEN $3::text IS NOT NULL THEN ${keyedTypeText('j')} ELSE j.keyed_type END, priority = coalesce($4::int2, j.priority),
    requested_priority = coalesce($4::int2, j.requested_priority),
    tags = CASE WHEN $5::bool THEN $6::jsonb ELSE j.tags END,
    correlation_id = CASE WHEN $7::bool THEN $8::text ELSE j.correlation_id END,
    callback_url = CASE WHEN $9::bool THEN $10::text ELSE j.callback_url END
  FROM allowed a WHERE j.org_id = a.org_id AND j.seq = a.seq
  RETURNING j.id, j.project_id, j.correlation_id, j.job_type, j.attempts_started
), ${auditedText({
    source: 'changed',
    event: 'job.changed',
    orgId: '$1::uuid',
    actor: '$13::text',
    requestId: '$14::text',
    details: '$15::json',
  })}, ${readyText('allowed WHERE moves', { priority: 'coalesce($4::int2, priority)', jobType: 'coalesce($3::text, job_type)' })}, ${withdrawnText('allowed', 'l.moves')}
SELECT l.state, l.is_final, l.is_reserved, l.job_type, EXISTS (SELECT FROM changed) AS updated FROM locked l`,
);

type Row = {
  state: JobState;
  is_final: boolean;
  is_reserved: boolean;
  job_type: string;
  updated: boolean;
};

export type UpdateParams = Owner & {
  id: string;
  change: JobChange;
  /** Prefixes of types whose jobs keep their type, priority and tags. */
  reservedPrefixes?: readonly string[];
  /** Who asks, for the audit trail. */
  requester?: Requester;
};

export async function updateJob(db: Queryable, params: UpdateParams): Promise<UpdatedJob> {
  const { orgId, projectId, id, change, reservedPrefixes = [], requester } = params;
  const { type, priority, tags, correlationId, callbackUrl } = change;
  const [row] = await run<Row>(db, UPDATE, [
    ...[orgId, id, type ?? null, priority ?? null],
    ...[tags !== undefined, tags == null ? null : JSON.stringify(tags)],
    ...[correlationId !== undefined, correlationId ?? null],
    ...[callbackUrl !== undefined, callbackUrl ?? null],
    ...[reservedPrefixes, projectId, requester?.actor ?? null, requester?.requestId ?? null, JSON.stringify(detailsOf(params))],
  ]);
  if (row === undefined) return { kind: 'not_found' };
  if (row.updated) return { kind: 'updated' };
  if (row.is_reserved && !row.is_final) return { kind: 'reserved', type: row.job_type };
  const field = row.is_final ? 'job' : priority === undefined ? 'type' : 'priority';
  return { kind: 'too_late', state: row.state, field };
}

/** What changed: the values that matter to the order of work, and the names of the others, whose values may be private. */
function detailsOf({ change, requester }: UpdateParams): Record<string, unknown> {
  const { type, priority } = change;
  const members = Object.entries(change).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  const reason = requester?.reason ?? '';
  return {
    members,
    ...(type === undefined ? {} : { type }),
    ...(priority === undefined ? {} : { priority }),
    ...(reason === '' ? {} : { reason }),
  };
}
