import { int8Array } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { arraysOf, laterText, type Release } from './take-releases.ts';

/** The dependencies that one statement reads, unless a single job has more. */
const MAX_EDGES = 2_000;

// Marks the dependencies of new jobs, so that their ends add releases. A completed or cancelled job never ends again and needs no mark,
// but a failed job may be retried by hand. If another transaction holds a job that needs a mark, the release of its dependent is
// postponed. Counts are written in a fixed order, because two releasers may count dependents of the same jobs.
const ADOPT = statement(
  'adopt_dependents',
  `WITH sized AS MATERIALIZED (
  SELECT n.id, n.org_id, n.seq, sum(e.edges) OVER (ORDER BY n.ord) - e.edges AS edges_before
  FROM unnest($1::int8[], $2::uuid[], $3::int8[]) WITH ORDINALITY AS n(id, org_id, seq, ord)
  CROSS JOIN LATERAL (SELECT count(*) AS edges FROM millrace.dependencies d WHERE d.org_id = n.org_id AND d.job_seq = n.seq) e
), new AS MATERIALIZED (
  SELECT id, org_id, seq FROM sized WHERE edges_before < ${MAX_EDGES}
), needed AS MATERIALIZED (
  SELECT n.id, n.org_id, n.seq AS job_seq, d.depends_on_seq AS seq FROM new n
  JOIN millrace.dependencies d ON d.org_id = n.org_id AND d.job_seq = n.seq
), unmarked AS MATERIALIZED (
  SELECT t.org_id, t.seq FROM (SELECT DISTINCT org_id, seq FROM needed) t CROSS JOIN LATERAL (
    SELECT FROM millrace.jobs j WHERE j.org_id = t.org_id AND j.seq = t.seq AND NOT j.has_dependents
      AND j.state NOT IN ('completed', 'cancelled') OFFSET 0) j
), locked AS MATERIALIZED (
  SELECT u.org_id, u.seq, j.seq AS locked_seq FROM unmarked u LEFT JOIN LATERAL (
    SELECT j.seq FROM millrace.jobs j WHERE j.org_id = u.org_id AND j.seq = u.seq FOR NO KEY UPDATE SKIP LOCKED) j ON true
), marked AS (
  UPDATE millrace.jobs j SET has_dependents = true FROM locked l WHERE j.org_id = l.org_id AND j.seq = l.locked_seq
), missed AS MATERIALIZED (
  SELECT DISTINCT id FROM needed WHERE (org_id, seq) IN (SELECT org_id, seq FROM locked WHERE locked_seq IS NULL)
), counted AS (
  INSERT INTO millrace.dependent_counts AS c (org_id, seq, dependents, counted_to)
  SELECT org_id, seq, count(*), max(job_seq) FROM needed WHERE id NOT IN (SELECT id FROM missed)
  GROUP BY org_id, seq ORDER BY org_id, seq
  ON CONFLICT (org_id, seq) DO UPDATE SET dependents = c.dependents + excluded.dependents,
    counted_to = greatest(c.counted_to, excluded.counted_to)
), adopted AS (
  UPDATE millrace.releases r SET is_new = false, failures = 0 FROM new n
  WHERE r.id = n.id AND n.id NOT IN (SELECT id FROM missed) RETURNING 1
), put_off AS (
  UPDATE millrace.releases r SET failures = r.failures + 1, due_at = ${laterText('r.failures + 1')} FROM missed m WHERE r.id = m.id
)
SELECT (SELECT count(*)::int4 FROM adopted) AS adopted, (SELECT count(*)::int4 FROM missed) AS put_off`,
);

export type Adopted = { adopted: number; put_off: number };

/** Marks the dependencies of new jobs. Afterwards the releases are like any other. */
export async function adoptDependents(client: Queryable, releases: readonly Release[]): Promise<Adopted> {
  const ids = int8Array(releases.map((release) => release.id));
  const [row] = await run<Adopted>(client, ADOPT, [ids, ...arraysOf(releases)]);
  return row as Adopted;
}
