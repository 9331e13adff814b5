/** The readers of the history that keep a position in `millrace.projections`. */
export type Projection = 'rollups' | 'webhooks';

/**
 * A place in the history: every event below it has been read. Events are ordered by transaction, record, job and number. A page may end
 * at any event, so neither a large transaction nor a large record has to be read whole.
 */
export type Position = {
  readonly txid: number;
  readonly recordId: number;
  readonly seq: number;
  readonly n: number;
};

/** Records at or after a position, by the index `records_in_feed_order`. The first condition is for the planner. */
export const recordsFrom = (txid: string, recordId: string, record = 'r'): string =>
  `${record}.txid >= ${txid} AND (${record}.txid, ${record}.id) >= (${txid}, ${recordId})`;

/** Records before a position that `recordsFrom` does not bound. */
export const recordsBefore = (txid: string, recordId: string, record = 'r'): string =>
  `${record}.txid <= ${txid} AND (${record}.txid, ${record}.id) < (${txid}, ${recordId})`;

/** How many events a record holds, by the size of its list: to count them would read it, and it may be large. */
export const eventsIn = (record = 'r'): string => `((pg_column_size(${record}.seqs) - 20) / 8)`;

/** Records that a projection has not read, or has read in part. */
export function unreadRecords(projection: Projection, record = 'r'): string {
  const of = (column: string) => `(SELECT ${column} FROM millrace.positions WHERE name = '${projection}')`;
  return recordsFrom(of('txid'), of('record_id'), record);
}
