import { int4Array } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** A session of Millrace whose client does not read what the server sends. */
export type UnreadSession = { readonly pid: number; readonly since: string };

// Only on Unix sockets: on TCP the server notices by itself (`SESSION_BOUNDS`). By the real clock, as all of pg_stat_activity.
const IS_UNREAD = `a.datname = current_database() AND a.usename = current_user AND a.application_name LIKE 'millrace %'
  AND a.client_addr IS NULL AND a.wait_event = 'ClientWrite'`;
const SINCE = `concat(a.backend_start, ' ', a.query_start)`;

const FIND = statement('find_unread_sessions', `SELECT a.pid, ${SINCE} AS since FROM pg_stat_activity a WHERE ${IS_UNREAD}`);

const END = statement(
  'end_unread_sessions',
  `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE ${IS_UNREAD} AND a.pid = ANY ($1::int4[])`,
);

/** Sessions that wait for their client to read. `since` differs once a session has gone on to another statement. */
export const findUnreadSessions = (db: Queryable): Promise<UnreadSession[]> => run<UnreadSession>(db, FIND);

/** Ends those of the sessions that still wait. */
export async function endUnreadSessions(db: Queryable, pids: readonly number[]): Promise<void> {
  await run(db, END, [int4Array(pids)]);
}
