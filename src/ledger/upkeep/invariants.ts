import { type Queryable, run, statement } from '../driver/statement.ts';
import { type CheckedJob, checkHistory, type Finding } from '../history/check-history.ts';
import { checkDeliveries, type DeliveryFinding } from '../webhooks/check-deliveries.ts';
import { checkTables, type TableRow } from './check-tables.ts';

// Reads rows and their history in one statement, so that jobs may move during the check.
const READ_HISTORIES = statement(
  'check_histories',
  `SELECT j.org_id AS "orgId", j.seq, j.id, j.state, j.event_count AS "eventCount", j.lease_seq AS "leaseSeq",
     j.worker_id AS "workerId", coalesce(e.events, '[]') AS events
   FROM (
     SELECT * FROM millrace.jobs WHERE (org_id, seq) > ($1::uuid, $2::int8) ORDER BY org_id, seq LIMIT $3::int4
   ) j
   CROSS JOIN LATERAL (
     SELECT json_agg(json_build_object('n', e.n, 'from', e.from_state, 'to', e.to_state, 'reason', e.reason,
       'leaseSeq', e.lease_seq, 'workerId', e.worker_id) ORDER BY e.n) AS events
     FROM millrace.events e WHERE e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
   ) e
   ORDER BY j.org_id, j.seq`,
);

const FIRST_ORG = '00000000-0000-0000-0000-000000000000';
const BATCH = 1_000;

type Row = CheckedJob & { orgId: string; seq: number; id: string };

export type Violation = {
  invariant: Finding['invariant'] | TableRow['invariant'] | DeliveryFinding['invariant'];
  orgId: string;
  jobId: string;
  what: string;
};

/**
 * Returns all violations of the invariants between the tables. It reads the whole ledger in batches. Give it the maintenance pool,
 * whose planner may join large tables.
 */
export async function checkInvariants(db: Queryable): Promise<Violation[]> {
  const tables = await checkTables(db);
  const violations: Violation[] = tables.map(({ invariant, org_id, job_id, what }) => ({
    invariant,
    orgId: org_id,
    jobId: job_id,
    what,
  }));
  violations.push(...(await checkDeliveries(db)));
  let from = { orgId: FIRST_ORG, seq: -1 };
  for (;;) {
    const rows: Row[] = await run<Row>(db, READ_HISTORIES, [from.orgId, from.seq, BATCH]);
    for (const row of rows) {
      for (const finding of checkHistory(row)) violations.push({ ...finding, orgId: row.orgId, jobId: row.id });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return violations;
    from = last;
  }
}
