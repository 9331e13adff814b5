import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import { statement } from './statement.ts';

/**
 * Options of every session of Millrace. A process that is frozen, or behind a broken network, acknowledges no data, and a statement
 * timeout does not end a session that waits for that. The session would keep its locks, its snapshot and its place in the notification
 * queue. With these options the server closes such a session after five seconds, about as long as other sessions wait for its locks. It
 * closes an idle session that cannot be reached after about a minute. They have no effect on Unix sockets, where `SessionWatch` ends
 * such sessions.
 */
export const SESSION_BOUNDS = '-c tcp_user_timeout=5000 -c tcp_keepalives_idle=60 -c tcp_keepalives_interval=10';

/** Settings by name, as in `pg_settings`: times are in milliseconds. */
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
 * Refuses a connection through a pooler, and a session without the expected settings. A pooler responds in place of the server with a
 * made-up process id, and may drop settings that the client requested. Then time limits, planner settings, prepared statements, LISTEN
 * and session locks would be lost without an error.
 */
export async function verifySession(client: pg.ClientBase, expected: SessionSettings): Promise<void> {
  // Without a name, so that no prepared statement remains on a server process that others share.
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
    message: `${why}A connection pooler is between this process and PostgreSQL. Use the address of the server itself.`,
  });
