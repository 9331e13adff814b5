import type pg from 'pg';
import { inTransaction } from '../driver/database.ts';
import { SNAPSHOT_HORIZON } from '../driver/horizon.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { METERED, METERED_COLUMNS } from './metric-counts.ts';
import { eventsIn, recordsBefore, recordsFrom, unreadRecords } from './positions.ts';
import { isDataError, type SetAside, writeSetAside } from './set-aside.ts';

/** Buckets grow by 4 % from a hundredth of a millisecond on. So the middle of a bucket is within 2 % of every value in it. */
const FIRST_BUCKET_MS = 0.01;
const BUCKET_GROWTH = 1.04;

export const bucketMiddleMs = (bucket: number): number => (bucket === 0 ? 0 : FIRST_BUCKET_MS * BUCKET_GROWTH ** (bucket - 0.5));

const bucketText = (ms: string) =>
  `CASE WHEN ${ms} <= ${FIRST_BUCKET_MS} THEN 0 ELSE least(ceil(ln(${ms} / ${FIRST_BUCKET_MS}) / ln(${BUCKET_GROWTH})), 32767) END::int2`;

/** The columns of a record that are counted. One record has all jobs of a statement with the same org, type and priority. */
export const COUNTED_COLUMNS = `org_id, at, date_trunc('second', at) AS second, job_type, priority, ns IS NULL AS is_birth, is_tagged,
    from_state, to_state, seqs, took_ms`;

/** One pass over `batch`. All counts derive from its result. */
export const CELLS = `
  SELECT org_id, second, job_type, priority, is_birth, from_state, to_state, sum(cardinality(seqs)) AS jobs FROM batch
  GROUP BY org_id, second, job_type, priority, is_birth, from_state, to_state`;

const COUNTS = {
  submitted: 'is_birth',
  completed: `to_state = 'completed'`,
  failed: `to_state = 'failed'`,
  dead_letter: `to_state = 'dead_letter'`,
  cancelled: `to_state = 'cancelled'`,
  retried: `to_state = 'retrying'`,
} as const;

const NAMES = Object.keys(COUNTS);

/** The counts as sums over cells, for any grouping. */
export const COUNTED = Object.entries(COUNTS)
  .map(([name, condition]) => `coalesce(sum(jobs) FILTER (WHERE ${condition}), 0) AS ${name}`)
  .join(', ');

/** The event that starts an attempt has its waiting time, and the event that ends it has its execution time. Cancellations do not count. */
export const LATENCIES = `
  SELECT org_id, second, kind, ${bucketText('ms')} AS bucket, count(*) AS attempts, max(ms) AS max_ms
  FROM (SELECT org_id, second, CASE to_state WHEN 'running' THEN 'queue' ELSE 'execution' END AS kind, unnest(took_ms)::float8 AS ms
    FROM batch WHERE took_ms IS NOT NULL AND to_state <> 'cancelled') t
  WHERE ms IS NOT NULL GROUP BY 1, 2, 3, 4`;

/** The change in the number of jobs of each state. A job leaves one state and enters another; the first event only enters. */
export const MOVED = `
  SELECT org_id, to_state AS state, jobs FROM cells
  UNION ALL SELECT org_id, from_state, -jobs FROM cells WHERE NOT is_birth AND from_state IS NOT NULL`;

export const LIVE = `('pending', 'delayed', 'scheduled', 'running', 'retrying')`;

const startOf = (width: string, at: string) => `to_timestamp(floor(date_part('epoch', ${at}) / ${width}) * ${width})`;

const JOBS = 'batch CROSS JOIN LATERAL unnest(seqs) AS u(seq)';

// The tags are read from the jobs, because a record only shows that its jobs have some.
const TAGGED = `
  INSERT INTO millrace.tagged_jobs (org_id, tag, last_seq, seqs)
  SELECT b.org_id, t.key || '=' || t.value, max(u.seq), array_agg(u.seq) FROM batch b CROSS JOIN LATERAL unnest(b.seqs) AS u(seq)
  CROSS JOIN LATERAL (SELECT j.tags FROM millrace.jobs j WHERE j.org_id = b.org_id AND j.seq = u.seq OFFSET 0) j
  CROSS JOIN LATERAL jsonb_each_text(j.tags) t WHERE b.is_tagged GROUP BY 1, 2`;

// One statement moves the position and adds the sums, so a rollup writer that dies leaves both unchanged. Its snapshot may be older than the
// position that it reads under the lock. Then there is no record between the two, and it counts none.
// A batch looks at a limited number of records. It ends before the record that would exceed the limit of events, even in the middle of
// a transaction. Records that share an id are counted together, so that the position shows readers what has been counted.
const PROJECT = statement(
  'project_rollups',
  `WITH position AS MATERIALIZED (
  SELECT txid, record_id FROM millrace.positions WHERE name = 'rollups' FOR UPDATE SKIP LOCKED
), low AS MATERIALIZED (
  SELECT p.txid, p.record_id, h.xmin FROM position p CROSS JOIN (SELECT ${SNAPSHOT_HORIZON} AS xmin) h
), looked AS MATERIALIZED (
  SELECT r.txid, r.id, ${eventsIn()} AS jobs FROM millrace.records r
  WHERE ${recordsFrom('(SELECT txid FROM low)', '(SELECT record_id FROM low)')} AND r.txid < (SELECT xmin FROM low)
  ORDER BY r.txid, r.id LIMIT $1::int4
), sized AS MATERIALIZED (
  SELECT txid, id, sum(jobs) OVER (ORDER BY txid, id GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM looked
), high AS MATERIALIZED (
  SELECT greatest(l.txid, coalesce(s.txid, f.txid, l.xmin)) AS txid, coalesce(s.id, f.id + 1, CASE WHEN l.xmin > l.txid THEN 0 ELSE l.record_id END) AS record_id
  FROM low l LEFT JOIN (SELECT txid, id FROM sized WHERE before >= $2::int8 ORDER BY txid, id LIMIT 1) s ON true
  LEFT JOIN (SELECT txid, id FROM sized ORDER BY txid, id OFFSET $1::int4 - 1 LIMIT 1) f ON true
), batch AS MATERIALIZED (
  SELECT ${COUNTED_COLUMNS}, ${METERED_COLUMNS} FROM millrace.records r
  WHERE ${recordsFrom('(SELECT txid FROM low)', '(SELECT record_id FROM low)')}
    AND ${recordsBefore('(SELECT txid FROM high)', '(SELECT record_id FROM high)')}
), cells AS MATERIALIZED (${CELLS}
), counted AS (
  INSERT INTO millrace.rollups AS r (org_id, width, started_at, job_type, priority, ${NAMES.join(', ')})
  SELECT org_id, width, ${startOf('width', 'second')}, job_type, priority, ${COUNTED}
  FROM cells CROSS JOIN unnest(ARRAY[1, 60, 3600, 86400]) AS w(width) WHERE is_birth OR to_state <> 'running'
  GROUP BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, width, started_at, job_type, priority)
  DO UPDATE SET ${NAMES.map((name) => `${name} = r.${name} + excluded.${name}`).join(', ')}
), latencies AS MATERIALIZED (${LATENCIES}
), timed AS (
  INSERT INTO millrace.rollup_latencies AS r (org_id, width, started_at, kind, bucket, attempts, max_ms)
  SELECT org_id, width, ${startOf('width', 'second')}, kind, bucket, sum(attempts), max(max_ms)
  FROM latencies CROSS JOIN unnest(ARRAY[1, 60, 3600, 86400]) AS w(width) GROUP BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, width, started_at, kind, bucket)
  DO UPDATE SET attempts = r.attempts + excluded.attempts, max_ms = greatest(r.max_ms, excluded.max_ms)
), spans AS MATERIALIZED (
  SELECT org_id, second, min(seq) FILTER (WHERE is_birth) AS min_seq, max(seq) FILTER (WHERE is_birth) AS max_seq, min(seq) AS changed_seq
  FROM ${JOBS} GROUP BY 1, 2
), spanned AS (
  INSERT INTO millrace.seq_spans AS s (org_id, width, started_at, min_seq, max_seq, changed_seq)
  SELECT org_id, width, ${startOf('width', 'second')}, min(min_seq), max(max_seq), min(changed_seq)
  FROM spans CROSS JOIN unnest(ARRAY[60, 86400]) AS w(width) GROUP BY 1, 2, 3
  ON CONFLICT (org_id, width, started_at)
  DO UPDATE SET min_seq = least(s.min_seq, excluded.min_seq), max_seq = greatest(s.max_seq, excluded.max_seq),
    changed_seq = CASE WHEN s.changed_seq IS NOT NULL THEN least(s.changed_seq, excluded.changed_seq) END
), ${METERED}, tagged AS (${TAGGED}
), moved AS (
  INSERT INTO millrace.live_totals AS t (org_id, state, jobs)
  SELECT org_id, state, sum(jobs) FROM (${MOVED}) m WHERE state IN ${LIVE} GROUP BY 1, 2 HAVING sum(jobs) <> 0
  ON CONFLICT (org_id, state) DO UPDATE SET jobs = t.jobs + excluded.jobs
), stepped AS (
  UPDATE millrace.projections p SET txid = h.txid, inside_txid = h.txid, record_id = h.record_id FROM high h
  WHERE p.name = 'rollups' AND (p.txid, p.record_id) IS DISTINCT FROM (h.txid, h.record_id)
)
SELECT coalesce((SELECT sum(jobs) FROM cells), 0)::int4 AS events, h.txid < l.xmin AS has_more FROM low l CROSS JOIN high h`,
);

// Reads cover a range that ends now. They need seconds for two hours, minutes for eight days and hours for a quarter. Days are kept.
const PRUNE = ['rollups', 'rollup_latencies'].map((table) =>
  statement(
    `prune_${table}`,
    `DELETE FROM millrace.${table} WHERE ctid = ANY (ARRAY(
       SELECT r.ctid FROM unnest(ARRAY[1, 60, 3600], ARRAY[interval '2 hours', interval '8 days', interval '92 days']) AS w(width, kept)
       CROSS JOIN LATERAL (SELECT r.ctid FROM millrace.${table} r
         WHERE r.width = w.width AND r.started_at < millrace.clock() - w.kept LIMIT $1::int4) r))
     RETURNING 1 AS one`,
  ),
);

const PRUNE_SPANS = statement(
  'prune_seq_spans',
  `DELETE FROM millrace.seq_spans WHERE ctid = ANY (ARRAY(
     SELECT s.ctid FROM millrace.seq_spans s
     WHERE s.started_at < millrace.clock() - interval '2 days' AND s.started_at + interval '2 days' < coalesce(
       (SELECT j.created_at FROM millrace.jobs j WHERE j.org_id = s.org_id ORDER BY j.seq LIMIT 1), 'infinity')
     LIMIT $1::int4)) RETURNING 1 AS one`,
);

// Deletes rows that list jobs for a search, once all of those jobs are gone.
const PRUNE_NAMED = [
  { table: 'tagged_jobs', last: 'last_seq' },
  { table: 'changed_jobs', last: 'seq' },
].map(({ table, last }) =>
  statement(
    `prune_${table}`,
    `DELETE FROM millrace.${table} WHERE ctid = ANY (ARRAY(
     SELECT t.ctid FROM (SELECT DISTINCT org_id FROM millrace.live_totals) o
     CROSS JOIN LATERAL (SELECT coalesce((SELECT j.seq FROM millrace.jobs j WHERE j.org_id = o.org_id ORDER BY j.seq LIMIT 1),
       (SELECT last_value FROM millrace.job_seq)) AS seq) oldest
     CROSS JOIN LATERAL (SELECT t.ctid FROM millrace.${table} t
       WHERE t.org_id = o.org_id AND t.${last} < oldest.seq LIMIT $1::int4) t)) RETURNING 1 AS one`,
  ),
);

// The record that a batch of one record would count.
const FIRST_UNREAD = statement(
  'first_unprojected',
  `SELECT r.id, (r.txid::text::int8)::text AS txid FROM millrace.records r WHERE ${unreadRecords('rollups')} ORDER BY r.txid, r.id LIMIT 1`,
);

const LOCK = statement('lock_rollups', `SELECT name FROM millrace.projections WHERE name = 'rollups' FOR UPDATE SKIP LOCKED`);

const STEP_OVER = statement(
  'step_over_record',
  `UPDATE millrace.projections p SET txid = $1::text::xid8, inside_txid = $1::text::xid8, record_id = $2::int8 + 1 WHERE p.name = 'rollups'`,
);

export type Projected =
  | { kind: 'busy' }
  /** `hasMore`: more records can be read immediately. */
  | { kind: 'projected'; events: number; hasMore: boolean; setAside: readonly SetAside[] };

// Forces index lookups, as on the hot path: the joined tables are large, and the batch is small.
const PLANNER = `SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
  SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_sort = off;
  SET LOCAL work_mem = '64MB'; SET LOCAL synchronous_commit = off; SET LOCAL statement_timeout = 0`;

/** The limits of one round. Larger rounds take longer and cost less per job. */
const ROUND = { records: 4_096, events: 20_000 };

/**
 * Counts the next records. Any number of processes may call it, and one at a time does the work. If a round fails because of its data,
 * it is tried again with fewer records, until the faulty record is alone and can be set aside.
 */
export async function projectRollups(pool: pg.Pool, records: number = ROUND.records): Promise<Projected> {
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(PLANNER);
      // The statement then sees everything that the last round added: it reads which series there are.
      if ((await run(client, LOCK)).length === 0) return { kind: 'busy' };
      const [row] = await run<{ events: number; has_more: boolean }>(client, PROJECT, [records, ROUND.events]);
      if (row === undefined) return { kind: 'busy' };
      // A crash of the database must not take back a counter that a scrape has seen: Prometheus would take that for a reset.
      if (row.events > 0) await client.query('SET LOCAL synchronous_commit = on');
      return { kind: 'projected', events: row.events, hasMore: row.has_more, setAside: [] };
    });
  } catch (error) {
    if (!isDataError(error)) throw error;
    return records > 1 ? projectRollups(pool, records >> 3 || 1) : stepOver(pool, error);
  }
}

function stepOver(pool: pg.Pool, error: unknown): Promise<Projected> {
  return inTransaction(pool, async (client) => {
    await client.query(PLANNER);
    if ((await run(client, LOCK)).length === 0) return { kind: 'busy' };
    const [record] = await run<{ id: number; txid: string }>(client, FIRST_UNREAD);
    if (record === undefined) throw error;
    const item: SetAside = {
      projection: 'rollups',
      orgId: null,
      recordId: record.id,
      seq: null,
      n: null,
      webhookId: null,
      error,
    };
    await run(client, STEP_OVER, [record.txid, record.id]);
    await writeSetAside(client, item);
    return { kind: 'projected', events: 0, hasMore: true, setAside: [item] };
  });
}

/** Deletes rollups that are too fine for their age, at most `limit` of each kind. Returns their number. */
export async function pruneRollups(db: Queryable, limit: number): Promise<number> {
  let pruned = 0;
  for (const made of [...PRUNE, PRUNE_SPANS, ...PRUNE_NAMED]) pruned += (await run(db, made, [limit])).length;
  return pruned;
}
