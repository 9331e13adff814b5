import { ACTOR_TYPES, type Actor, type StateTransition } from '../../core/job.ts';
import type { JobState } from '../../core/states.ts';
import type { Reason } from '../../core/transitions.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { WantedJob } from './get-job.ts';

/** Whether event `e` ended a job whose last attempt timed out. The reason of the event does not show this. */
const TIMED_OUT = `e.reason = 'attempts_exhausted' AND coalesce(e.detail->>'category' = 'TIMEOUT', false)`;
/** How long the job of event `e` was leased before it started or was cancelled. Null if it was not leased. */
export const ASSIGNED_MS = `CASE WHEN e.to_state IN ('running', 'cancelled') THEN (e.detail->>'assignedMs')::float8 END`;

const COLUMNS = `e.from_state, e.to_state, e.at, e.reason, e.attempt, e.actor,
     e.to_state = 'cancelled' AND coalesce((e.detail->>'claimed')::boolean, false) AS was_claimed,
     ${TIMED_OUT} AS timed_out, ${ASSIGNED_MS} AS assigned_ms`;

const HISTORIES = statement(
  'job_histories_of_orgs',
  `SELECT w.ord::int4 AS ord, ${COLUMNS}
   FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS w(org_id, id, project_id, ord)
   JOIN millrace.jobs j ON j.id = w.id AND (j.org_id = w.org_id) IS TRUE AND (w.project_id IS NULL OR j.project_id = w.project_id)
   JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
   ORDER BY w.ord, e.n`,
);

type Row = {
  from_state: JobState | null;
  to_state: JobState;
  at: Date | string;
  reason: Reason;
  attempt: number;
  actor: string | null;
  was_claimed: boolean;
  timed_out: boolean;
  assigned_ms: number | null;
};

/** Returns the state changes of each wanted job, oldest first. The list is empty if the owner has no such job. */
export async function historiesOfOrgs(db: Queryable, wanted: readonly WantedJob[]): Promise<StateTransition[][]> {
  const rows = await run<Row & { ord: number }>(db, HISTORIES, [
    uuidArray(wanted.map(({ orgId }) => orgId)),
    uuidArray(wanted.map(({ id }) => id)),
    uuidArray(wanted.map(({ projectId }) => projectId)),
  ]);
  const histories: StateTransition[][] = wanted.map(() => []);
  for (const row of rows) histories[row.ord - 1]?.push(toTransition(row));
  return histories;
}

function toTransition(row: Row): StateTransition {
  return {
    from: row.from_state,
    to: row.to_state,
    at: new Date(row.at),
    reason: row.reason,
    attempt: row.attempt,
    actor: toActor(row.actor),
    ...(row.was_claimed ? { wasClaimed: true } : {}),
    ...(row.timed_out ? { timedOut: true } : {}),
    ...(row.assigned_ms === null ? {} : { assignedMs: row.assigned_ms }),
  };
}

/** Actors are stored as `type:id`. Text without a known type names a part of the system. */
function toActor(text: string | null): Actor | null {
  if (text === null) return null;
  const type = ACTOR_TYPES.find((known) => text.startsWith(`${known}:`));
  return type === undefined ? { type: 'system', id: text } : { type, id: text.slice(type.length + 1) };
}
