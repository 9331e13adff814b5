// SQL that writes the history of the jobs that a statement moves: one record for all jobs with the same org, type, priority and
// transition.

/** One number for all records of a statement. Every job that it moves appends the number to `record_ids`, once for each event. */
export const RECORD = `record AS MATERIALIZED (SELECT nextval('millrace.record_id') AS id)`;

export const RECORD_ID = '(SELECT id FROM record)';

export const countedText = (job = 'j', events: 1 | 2 = 1): string =>
  `event_count = ${job}.event_count + ${events}, record_ids = ${job}.record_ids${` || ${RECORD_ID}`.repeat(events)}`;

/** The milliseconds between two times, as records store them. */
export const tookText = (since: string, until = 'millrace.clock()'): string => `(date_part('epoch', ${until} - ${since}) * 1000)::real`;

/** SQL expressions over the rows of `source`. An absent one is the same for all rows, or null. */
export type RecordedParams = {
  source: string;
  from: string;
  to: string;
  reason: string;
  /** When the transition happened. The default is now. */
  at?: string;
  orgId?: string;
  workerId?: string;
  actor?: string;
  n?: string;
  tookMs?: string;
  detail?: string;
  /** The expressions that differ between rows. */
  groupBy?: readonly string[];
};

export function recordedText(params: RecordedParams): string {
  const {
    source,
    from,
    to,
    reason,
    at = 'millrace.clock()',
    orgId = 'org_id',
    workerId = 'NULL::int8',
    actor = 'NULL',
    n = 'event_count',
  } = params;
  const { tookMs, detail, groupBy = [] } = params;
  return `INSERT INTO millrace.records
    (id, at, org_id, worker_id, from_state, to_state, priority, job_type, reason, actor, seqs, ns, lease_seqs, attempts, rounds, took_ms, details)
  SELECT ${RECORD_ID}, ${at}, ${orgId}, ${workerId}, ${from}::millrace.job_state, ${to}::millrace.job_state, priority, job_type,
    ${reason}, ${actor}, array_agg(seq), array_agg(${n}), array_agg(lease_seq), array_agg(attempts_started), array_agg(round),
    ${tookMs === undefined ? 'NULL' : `array_agg(${tookMs})`},
    ${detail === undefined ? 'NULL' : `CASE WHEN count(${detail}) > 0 THEN array_agg(${detail}) END`}
  FROM ${source} GROUP BY ${[...(orgId === 'org_id' ? [orgId] : []), 'job_type', 'priority', ...groupBy].join(', ')}`;
}
