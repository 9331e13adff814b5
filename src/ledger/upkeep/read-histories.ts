import { type Queryable, run, statement } from '../driver/statement.ts';
import type { CheckedEvent, CheckedJob } from '../history/check-history.ts';

// Reads rows and their history in one statement, so that jobs may move during the check. It opens each record once for all jobs of the
// batch and leaves the join to the caller: a record lists up to a thousand jobs, and to open it for each of them took 42 s for 50 000 jobs.
// The planner cannot know how long a record is, so a join here took even longer once its plan was generic. IS TRUE keeps the planner
// from joining the list of jobs.
const READ = statement(
  'check_histories',
  `WITH batch AS MATERIALIZED (
     SELECT org_id, seq, id, state, event_count, lease_seq, worker_id, record_ids
     FROM millrace.jobs WHERE (org_id, seq) > ($1::uuid, $2::int8) ORDER BY org_id, seq LIMIT $3::int4
   )
   SELECT (
     SELECT coalesce(json_agg(json_build_object('orgId', org_id, 'seq', seq, 'id', id, 'state', state, 'eventCount', event_count,
       'leaseSeq', lease_seq, 'workerId', worker_id, 'recordIds', record_ids) ORDER BY org_id, seq), '[]') FROM batch
   ) AS jobs, (
     SELECT coalesce(json_agg(json_build_object('orgId', e.org_id, 'seq', e.job_seq, 'recordId', e.record_id, 'n', e.n,
       'from', e.from_state, 'to', e.to_state, 'reason', e.reason, 'leaseSeq', e.lease_seq, 'workerId', e.worker_id)), '[]')
     FROM millrace.events e WHERE e.record_id = ANY (ARRAY(SELECT DISTINCT unnest(record_ids) FROM batch))
       AND (e.job_seq IN (SELECT seq FROM batch)) IS TRUE
   ) AS events`,
);

/** An estimate, because counting reads the whole table. It is zero or less if the table was never analyzed. */
export const ESTIMATE = statement('estimate_jobs', `SELECT reltuples::float8 AS jobs FROM pg_class WHERE oid = 'millrace.jobs'::regclass`);

const FIRST_ORG = '00000000-0000-0000-0000-000000000000';
const BATCH = 1_000;

type JobRow = Omit<CheckedJob, 'events'> & { orgId: string; seq: number; id: string; recordIds: number[] };
type EventRow = CheckedEvent & { orgId: string; seq: number; recordId: number };

export type JobWithHistory = CheckedJob & Pick<JobRow, 'orgId' | 'id'>;

/** Yields all jobs of all orgs with their histories, in batches. */
export async function* readHistories(db: Queryable): AsyncGenerator<JobWithHistory[]> {
  for (let from: Pick<JobRow, 'orgId' | 'seq'> = { orgId: FIRST_ORG, seq: -1 }; ; ) {
    const [row] = await run<{ jobs: JobRow[]; events: EventRow[] }>(db, READ, [from.orgId, from.seq, BATCH]);
    const { jobs, events } = row as { jobs: JobRow[]; events: EventRow[] };
    if (jobs.length > 0) yield withHistories(jobs, events);
    const last = jobs.at(-1);
    if (last === undefined || jobs.length < BATCH) return;
    from = last;
  }
}

/** An event belongs to a job only if the job lists its record. */
function withHistories(jobs: readonly JobRow[], events: readonly EventRow[]): JobWithHistory[] {
  const bySeq = Map.groupBy(events, ({ seq }) => seq);
  return jobs.map(({ seq, recordIds, ...job }) => {
    const records = new Set(recordIds);
    const own = (bySeq.get(seq) ?? []).filter(({ orgId, recordId }) => orgId === job.orgId && records.has(recordId));
    return { ...job, events: own.sort((a, b) => a.n - b.n) };
  });
}
