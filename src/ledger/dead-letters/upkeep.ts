import type pg from 'pg';
import type { NewAlert } from '../../core/governance/alert.ts';
import { raiseAlerts } from '../alerts/raise-alert.ts';
import { inTransaction } from '../driver/database.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// A group of entries becomes one alert, which names its first job. Later entries of the group count for that alert until its hour is over.
// The entries are marked in the transaction that raises it, so each is counted once.
const TAKE = statement(
  'take_unalerted_dead_letters',
  `WITH taken AS MATERIALIZED (
     SELECT d.org_id, d.seq FROM millrace.dead_letters d WHERE NOT d.is_alerted ORDER BY d.failed_at LIMIT $1::int4
     FOR NO KEY UPDATE SKIP LOCKED
   ), marked AS (
     UPDATE millrace.dead_letters d SET is_alerted = true FROM taken t WHERE d.org_id = t.org_id AND d.seq = t.seq
     RETURNING d.org_id, d.fingerprint, d.job_type, d.code, d.job_id, d.failed_at
   ), groups AS (
     SELECT org_id, fingerprint, max(job_type) AS type, max(code) AS code, (array_agg(job_id ORDER BY failed_at))[1] AS job_id, count(*)::int4 AS entries
     FROM marked GROUP BY org_id, fingerprint
   )
   SELECT g.org_id AS "orgId", g.type, g.code, g.job_id AS "jobId", g.entries, coalesce(known.subject, 'job:' || g.job_id) AS subject
   FROM groups g LEFT JOIN LATERAL (
     SELECT a.subject FROM millrace.alerts a JOIN millrace.dead_letters d ON d.org_id = a.org_id
       AND d.job_id = CASE WHEN a.subject ~ '^job:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN substr(a.subject, 5)::uuid END
     WHERE a.last_at >= date_trunc('hour', millrace.clock()) AND a.kind = 'dead_letter' AND a.org_id = g.org_id
       AND a.hour = date_trunc('hour', millrace.clock()) AND d.fingerprint = g.fingerprint
     ORDER BY a.first_at LIMIT 1) known ON true`,
);

type Group = { orgId: string; type: string; code: string; jobId: string; entries: number; subject: string };

/** Raises an alert for each group of new entries. Returns how many entries it looked at. */
export function alertEntries(pool: pg.Pool, limit: number): Promise<number> {
  return inTransaction(pool, async (client) => {
    const groups = await run<Group>(client, TAKE, [limit]);
    await raiseAlerts(client, groups.map(alertOf));
    return groups.reduce((sum, { entries }) => sum + entries, 0);
  });
}

const alertOf = ({ orgId, type, code, jobId, entries, subject }: Group): NewAlert => ({
  kind: 'dead_letter',
  severity: 'error',
  orgId,
  subject,
  message: `Jobs of the type ${type} died with ${code}, for example ${jobId}. Look at the group with "millrace dlq groups", then replay, fix or discard its entries.`,
  count: entries,
});

// An entry that an operator has closed is kept as long as an open one: it is the record of what was done.
const PRUNE = statement(
  'prune_dead_letters',
  `DELETE FROM millrace.dead_letters WHERE ctid = ANY (ARRAY(
     SELECT d.ctid FROM millrace.dead_letters d WHERE d.failed_at < millrace.clock() - $1::float8 * interval '1 ms'
       AND (d.undo_until IS NULL OR d.undo_until < millrace.clock())
     ORDER BY d.failed_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS one`,
);

/** Removes entries past their retention. Their jobs then follow their own retention. Returns their number. */
export async function pruneEntries(db: Queryable, { retentionMs, limit }: { retentionMs: number; limit: number }): Promise<number> {
  return (await run(db, PRUNE, [retentionMs, limit])).length;
}
