/** Connections of this name only ever add up. Whatever could write a record must have another. */
export const PROJECTOR = 'projector';

/**
 * Below this number no transaction can write a record any more. As `pg_snapshot_xmin`, but for transactions of the projector: they take
 * longest of all, write none, and held every event back while they lasted. A number is never used twice, so that the two
 * looks, at the snapshot and at who runs, need not be of one moment.
 */
export const HORIZON = `(SELECT coalesce(min(x.xid), pg_snapshot_xmax(pg_current_snapshot()))
    FROM pg_snapshot_xip(pg_current_snapshot()) AS x(xid)
    WHERE x.xid::xid <> ALL (ARRAY(SELECT a.backend_xid FROM pg_stat_get_activity(NULL) a
      WHERE a.application_name = 'millrace ${PROJECTOR}' AND a.backend_xid IS NOT NULL)))`;
