/** Connections of this name only ever add up. Whatever could write a record must have another. */
export const PROJECTOR = 'projector';

/** A number of the cluster as the ledger counts: see `cluster.ts`. */
const counted = (xid: string): string => `(((${xid})::text::int8 + millrace.txid_offset())::text::xid8)`;

/** No transaction has started at or above this number. */
export const NEXT_TXID = counted('pg_snapshot_xmax(pg_current_snapshot())');

/** Below this number every transaction is over. */
export const SNAPSHOT_HORIZON = counted('pg_snapshot_xmin(pg_current_snapshot())');

/**
 * Below this number no transaction can write a record any more. As `pg_snapshot_xmin`, but for transactions of the projector: they take
 * longest of all, write none, and held every event back while they lasted. Anyone can give a session that name, so it counts only for
 * sessions of the same role, which can write to the ledger as they like. A number is never used twice, so that the two
 * looks, at the snapshot and at who runs, need not be of one moment.
 */
export const HORIZON = counted(`SELECT coalesce(min(x.xid), pg_snapshot_xmax(pg_current_snapshot()))
    FROM pg_snapshot_xip(pg_current_snapshot()) AS x(xid)
    WHERE x.xid::xid <> ALL (ARRAY(SELECT a.backend_xid FROM pg_stat_get_activity(NULL) a
      WHERE a.application_name = 'millrace ${PROJECTOR}' AND a.backend_xid IS NOT NULL
        AND a.usesysid = (SELECT own.usesysid FROM pg_stat_get_activity(pg_backend_pid()) own)))`);
