/** Reads from the history when the jobs of a limit ran. */
import type { Queryable } from '../src/ledger/driver/statement.ts';

/** One attempt, by the times of its events. An attempt that has not ended runs until now. */
export type RunInterval = { startMs: number; endMs: number };

const TEXT = `SELECT date_part('epoch', s.at) * 1000 AS "startMs", date_part('epoch', coalesce(e.at, now())) * 1000 AS "endMs"
  FROM millrace.limits l JOIN millrace.jobs j ON j.limit_id = l.id
  JOIN millrace.events s ON s.record_id = ANY (j.record_ids) AND s.org_id = j.org_id AND s.job_seq = j.seq AND s.to_state = 'running'
  LEFT JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq AND e.n = s.n + 1
  WHERE l.key = $1`;

export async function runIntervals(db: Queryable, key: string): Promise<RunInterval[]> {
  return (await db.query({ text: TEXT, values: [key] })).rows as RunInterval[];
}

/** How many attempts ran at the same time. One that begins at the moment at which another ends does not count as the same time. */
export function mostAtOnce(runs: readonly RunInterval[]): number {
  const changes = runs.flatMap(({ startMs, endMs }) => [
    { atMs: startMs, by: 1 },
    { atMs: endMs, by: -1 },
  ]);
  let now = 0;
  let most = 0;
  for (const { by } of changes.toSorted((a, b) => a.atMs - b.atMs || a.by - b.by)) {
    now += by;
    most = Math.max(most, now);
  }
  return most;
}

/** How many attempts started within any time of this length. */
export function mostStarts(runs: readonly RunInterval[], lengthMs: number): number {
  const starts = runs.map(({ startMs }) => startMs).toSorted((a, b) => a - b);
  let first = 0;
  let most = 0;
  for (const [last, atMs] of starts.entries()) {
    while (atMs - (starts[first] as number) >= lengthMs) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
