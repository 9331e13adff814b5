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

/** Settings by name. Times are in milliseconds. */
export type SessionSettings = Readonly<Record<string, string>>;

export const toOptions = (settings: SessionSettings): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ');

// A session spends 0.1 ms of the database on this and 1.8 ms on pg_settings, which describes all settings. A name that the server does not
// know is null.
const IN_FORCE = statement(
  'settings_in_force',
  `SELECT pg_backend_pid() AS pid, ARRAY(SELECT current_setting(name, true) FROM unnest($1::text[]) name) AS shown`,
);

type Row = { pid: number; shown: (string | null)[] };

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['min', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
]);

/** The server shows a time with the largest unit that fits. */
function inMs(shown: string | null | undefined): string | null | undefined {
  const [, count, unit = ''] = shown?.match(/^(\d+)(ms|s|min|h|d)$/) ?? [];
  return count === undefined ? shown : String(Number(count) * (UNIT_MS.get(unit) as number));
}

/**
 * Refuses a connection through a pooler, and a session without the expected settings. A pooler responds in place of the server with a
 * made-up process id, and may drop settings that the client requested. Then time limits, planner settings, prepared statements, LISTEN
 * and session locks would be lost without an error.
 */
export async function verifySession(client: pg.ClientBase, expected: SessionSettings): Promise<void> {
  // Without a name, so that no prepared statement remains on a server process that others share.
  const { rows } = await client.query<Row>({ text: IN_FORCE.text, values: [Object.keys(expected)] });
  const { processID } = client as { processID?: number | null };
  const { pid, shown = [] } = rows[0] ?? {};
  if (typeof processID === 'number' && pid !== undefined && processID !== pid) throw pooled();
  const missing = Object.entries(expected).flatMap(([name, value], index) => (inMs(shown[index]) === value ? [] : [name]));
  if (missing.length > 0) throw pooled(`${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} not in force. `);
}

const pooled = (why = '') =>
  new AppError('DATABASE_POOLED', {
    message: `${why}A connection pooler is between this process and PostgreSQL. Use the address of the server itself.`,
  });
