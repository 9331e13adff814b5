import type pg from 'pg';
import type { NewEntry, StreamEntry, StreamName, StreamRead } from '../../core/ingest/stream.ts';
import { int4Array, jsonArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { inTransaction } from '../driver/database.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { packed } from './packed-entries.ts';

const APPEND = statement(
  'append_entries',
  `INSERT INTO millrace.stream_entries (stream, org_id, job_id, at, entries, body)
   SELECT u.stream, u.org_id, u.job_id, millrace.clock(), u.entries, u.body
   FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::int4[], $5::json[]) WITH ORDINALITY AS u(stream, org_id, job_id, entries, body, n) ORDER BY u.n`,
);

// A line of a job that was removed meanwhile is dropped. The lines get their offsets here, under the lock of the stream, so they are written
// once and not twice. That needs a transaction of this statement alone, because the lock is held until its end. While entries of other transactions
// wait for the numberer, the lines wait behind them, so that the first line of a job stays its first.
const APPEND_LINES = statement(
  'append_log_lines',
  `WITH state AS MATERIALIZED (
     SELECT EXISTS (SELECT FROM millrace.stream_entries WHERE stream = 'jobs.logs' AND stream_offset IS NULL) AS waits
   ), packs AS MATERIALIZED (
     SELECT i.org_id, i.id, u.at, u.entries, u.body, u.n, sum(u.entries) OVER (ORDER BY u.n) AS last
     FROM unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::json[]) WITH ORDINALITY AS u(job_id, at, entries, body, n)
     JOIN millrace.ingest_jobs i ON i.id = u.job_id
   ), moved AS (
     UPDATE millrace.streams s SET next_offset = s.next_offset + p.count FROM (SELECT coalesce(max(last), 0) AS count FROM packs) p
     WHERE s.name = 'jobs.logs' AND NOT (SELECT waits FROM state) RETURNING s.next_offset - p.count AS first
   ), appended AS (
     INSERT INTO millrace.stream_entries (stream, stream_offset, first_offset, org_id, job_id, at, entries, body)
     SELECT 'jobs.logs', (SELECT first FROM moved) + last - 1, (SELECT first FROM moved) + last - entries, org_id, id, at, entries, body
     FROM packs ORDER BY n
   )
   SELECT waits FROM state`,
);

const LOCK = statement('lock_stream', 'SELECT next_offset AS next FROM millrace.streams WHERE name = $1 FOR NO KEY UPDATE');

// A statement after the lock, so that its snapshot has everything that earlier numberers wrote.
const NUMBER = statement(
  'number_entries',
  `WITH fresh AS MATERIALIZED (
     SELECT id, sum(entries) OVER (ORDER BY id) AS last FROM (
       SELECT id, entries FROM millrace.stream_entries WHERE stream = $1 AND stream_offset IS NULL ORDER BY id LIMIT $3::int4) f
   ), numbered AS (
     UPDATE millrace.stream_entries e SET stream_offset = $2::int8 + f.last - 1, first_offset = $2::int8 + f.last - e.entries FROM fresh f WHERE e.id = f.id RETURNING e.entries
   ), counted AS (SELECT coalesce(sum(entries), 0)::int4 AS numbered FROM numbered), moved AS (
     UPDATE millrace.streams SET next_offset = $2::int8 + (SELECT numbered FROM counted) WHERE name = $1
   )
   SELECT numbered FROM counted`,
);

const HAS_NEW = statement(
  'has_new_entries',
  'SELECT EXISTS (SELECT FROM millrace.stream_entries WHERE stream = $1 AND stream_offset IS NULL) AS "hasNew"',
);

// Only the rows that have an entry of the page are unpacked: `before` counts the entries of the page in earlier rows.
const readText = (wanted: string): string => `
   SELECT p.stream_offset - p.entries + l.n AS "offset", coalesce(to_timestamp(l.ms / 1000), p.at) AS at, p.job_id AS "jobId", l.body
   FROM (
     SELECT e.*, sum(e.taken) OVER (ORDER BY e.stream_offset) - e.taken AS before FROM (
       SELECT stream_offset, job_id, at, entries, body, least(entries, stream_offset - $2::int8 + 1) AS taken FROM millrace.stream_entries
       WHERE ${wanted} AND stream_offset >= $2::int8 ORDER BY stream_offset LIMIT $3::int4) e) p
   CROSS JOIN LATERAL (
     SELECT 1 AS n, NULL::float8 AS ms, p.body WHERE p.entries = 1
     UNION ALL
     SELECT u.n, (u.pair->>0)::float8, u.pair->1
     FROM json_array_elements(CASE WHEN p.entries > 1 THEN p.body ELSE '[]' END) WITH ORDINALITY AS u(pair, n) WHERE u.n > p.entries - p.taken) l
   WHERE p.before < $3::int4 ORDER BY p.stream_offset, l.n LIMIT $3::int4`;

const READ = statement('read_stream', readText('stream = $1'));
const READ_JOB = statement('read_stream_of_job', readText('job_id = $4::uuid AND stream = $1'));

const HEAD = statement('head_of_stream', 'SELECT next_offset AS head FROM millrace.streams WHERE name = $1');

const TRIM = statement(
  'trim_stream',
  `WITH first AS MATERIALIZED (
     SELECT id, at FROM millrace.stream_entries WHERE stream = $1 AND stream_offset IS NOT NULL ORDER BY stream_offset LIMIT $3::int4
   ), old AS MATERIALIZED (
     SELECT e.id FROM millrace.stream_entries e JOIN first f ON f.id = e.id
     WHERE f.at <= millrace.clock() - $2::float8 * interval '1 ms' FOR UPDATE OF e SKIP LOCKED
   )
   DELETE FROM millrace.stream_entries e USING old o WHERE e.id = o.id RETURNING e.entries`,
);

/** The entries belong to the transaction of the client. */
export async function appendEntries(db: Queryable, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const packs = packed(entries);
  await run(db, APPEND, [
    textArray(packs.map(({ stream }) => stream)),
    uuidArray(packs.map(({ orgId }) => orgId)),
    uuidArray(packs.map(({ jobId }) => jobId)),
    int4Array(packs.map((pack) => pack.entries)),
    jsonArray(packs.map(({ body }) => body)),
  ]);
}

/** A line of the log of a job, with the time at which it was written. */
export type TimedLine = { readonly jobId: string; readonly at: Date; readonly body: Readonly<Record<string, unknown>> };

/**
 * Returns whether entries wait for the numberer. Then these lines do so too, and it should be called soon. The lines of a job keep their order;
 * those of one job come before those of another.
 */
export async function appendLines(db: pg.Pool, lines: readonly TimedLine[]): Promise<{ waits: boolean }> {
  const byJob = Map.groupBy(lines, ({ jobId }) => jobId);
  const packs = [...byJob.values()].flatMap((ofJob) => packed(ofJob.map((line) => ({ ...line, stream: 'jobs.logs' }))));
  const [row] = await run<{ waits: boolean }>(db, APPEND_LINES, [
    uuidArray(packs.map(({ jobId }) => jobId)),
    packs.map(({ at }) => at?.toISOString()),
    int4Array(packs.map(({ entries }) => entries)),
    jsonArray(packs.map(({ body }) => body)),
  ]);
  return { waits: row?.waits === true };
}

/** Rows. */
const NUMBERED_AT_ONCE = 5_000;

/** Gives offsets to the committed entries that have none. One transaction numbers a stream at a time, so offsets never leave a gap behind. */
export async function numberEntries(pool: pg.Pool, stream: StreamName): Promise<number> {
  const [row] = await run<{ hasNew: boolean }>(pool, HAS_NEW, [stream]);
  if (row?.hasNew !== true) return 0;
  return inTransaction(
    pool,
    async (client) => {
      const [head] = await run<{ next: number }>(client, LOCK, [stream]);
      const [counted] = await run<{ numbered: number }>(client, NUMBER, [stream, head?.next ?? 0, NUMBERED_AT_ONCE]);
      return counted?.numbered ?? 0;
    },
    { mayRepeat: true },
  );
}

/** Entries that have an offset. Number the stream first to see everything that is committed. */
export async function readStream(db: Queryable, { stream, jobId, from, limit }: StreamRead): Promise<StreamEntry[]> {
  return jobId === undefined
    ? run<StreamEntry>(db, READ, [stream, from, limit])
    : run<StreamEntry>(db, READ_JOB, [stream, from, limit, jobId]);
}

export async function headOfStream(db: Queryable, stream: StreamName): Promise<number> {
  return (await run<{ head: number }>(db, HEAD, [stream]))[0]?.head ?? 0;
}

export async function trimStream(
  db: Queryable,
  { stream, olderThanMs, limit }: { stream: StreamName; olderThanMs: number; limit: number },
): Promise<number> {
  const rows = await run<{ entries: number }>(db, TRIM, [stream, olderThanMs, limit]);
  return rows.reduce((sum, { entries }) => sum + entries, 0);
}
