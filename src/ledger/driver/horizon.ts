/** Connections with this name only maintain sums. A connection that may write a record must have another name. */
export const ROLLUP_WRITER = 'rollup writer';

/** Converts a number of the cluster to a number of the ledger: see `cluster.ts`. */
const counted = (xid: string): string => `(((${xid})::text::int8 + millrace.txid_offset())::text::xid8)`;

/** No transaction has started at or above this number. */
export const NEXT_TXID = counted('pg_snapshot_xmax(pg_current_snapshot())');

/** Every transaction below this number has ended. */
export const SNAPSHOT_HORIZON = counted('pg_snapshot_xmin(pg_current_snapshot())');

/**
 * No transaction below this number can still write a record. It equals `pg_snapshot_xmin`, but ignores transactions of the rollup writer:
 * these take longest, write no records, and would delay every event. Any session can use the rollup writer's name, so the name counts only
 * for sessions of the same role, which may write to the ledger anyway. Numbers are never reused, so the snapshot and the list of
 * running transactions may be read at different moments.
 */
export const HORIZON = counted(`SELECT coalesce(min(x.xid), pg_snapshot_xmax(pg_current_snapshot()))
    FROM pg_snapshot_xip(pg_current_snapshot()) AS x(xid)
    WHERE x.xid::xid <> ALL (ARRAY(SELECT a.backend_xid FROM pg_stat_get_activity(NULL) a
      WHERE a.application_name = 'millrace ${ROLLUP_WRITER}' AND a.backend_xid IS NOT NULL
        AND a.usesysid = (SELECT own.usesysid FROM pg_stat_get_activity(pg_backend_pid()) own)))`);
