import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import { statement } from './statement.ts';

/**
 * Options of every session of ours. A process that is frozen, or behind a broken network, acknowledges nothing of an answer that is
 * sent to it, and no timeout of a statement ends a session that waits for that: it would keep its locks, its snapshot and its
 * place in the queue of notifications for as long as the process stands still. The server gives such a session up after as long as
 * whoever waits for a lock of it is ready to wait, and one that is idle and cannot be reached after about a minute. Sockets of the
 * file system know none of this.
 */
export const SESSION_BOUNDS = '-c tcp_user_timeout=5000 -c tcp_keepalives_idle=60 -c tcp_keepalives_interval=10';

/** Settings by name, as `pg_settings` shows them: times in milliseconds. */
export type SessionSettings = Readonly<Record<string, string>>;

export const toOptions = (settings: SessionSettings): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ');

const IN_FORCE = statement(
  'settings_in_force',
  `SELECT pg_backend_pid() AS pid, s.name, s.setting
   FROM (VALUES (1)) one LEFT JOIN pg_settings s ON s.name = ANY ($1::text[])`,
);

type Row = { pid: number; name: string | null; setting: string };

/**
 * Refuses a connection that does not have a session to itself with these settings. A pooler answers in the name of the server and
 * gives the client a process id that it made up; it may also drop settings that the client asked for. Either way time limits,
 * planner settings, prepared statements, LISTEN and session locks would vanish without an error.
 */
export async function verifySession(client: pg.ClientBase, expected: SessionSettings): Promise<void> {
  // Without a name: nothing stays behind on a server process that others share.
  const { rows } = await client.query<Row>({ text: IN_FORCE.text, values: [Object.keys(expected)] });
  const { processID } = client as { processID?: number | null };
  const pid = rows[0]?.pid;
  if (typeof processID === 'number' && pid !== undefined && processID !== pid) throw pooled();
  const found = new Map(rows.map(({ name, setting }) => [name, setting]));
  const missing = Object.entries(expected).flatMap(([name, value]) => (found.get(name) === value ? [] : [name]));
  if (missing.length > 0) throw pooled(`${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} not in force. `);
}

const pooled = (why = '') =>
  new AppError('DATABASE_POOLED', {
    message: `${why}A pooler stands between this process and PostgreSQL. Give the address of the server itself.`,
  });
