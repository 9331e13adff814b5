/** Checks that a server is fit to store jobs. */
import type { Client } from 'pg';
import { isAppError } from '../core/errors.ts';
import { codeOf, failure, messageOf } from './failure.ts';
import { ScramClient } from './scram-client.ts';

const OLDEST_MAJOR = 15;
const NEWEST_TESTED_MAJOR = 18;
const CONNECT_TIMEOUT_MS = 10_000;
const DURABILITY_SETTINGS = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;

type ServerSettings = { version: number } & Record<(typeof DURABILITY_SETTINGS)[number], string>;

const READ_SETTINGS = `
  SELECT current_setting('server_version_num')::int AS version,
         pg_backend_pid() AS pid,
         current_setting('fsync') AS fsync,
         current_setting('synchronous_commit') AS synchronous_commit,
         current_setting('full_page_writes') AS full_page_writes`;

/** Refuses a server that is too old or could lose acknowledged jobs in a crash. */
export async function checkServer(url: string, onNotice?: (sentence: string) => void): Promise<{ version: number }> {
  const settings = await readSettings(url);
  const notice = judgeServer(settings, describe(url));
  if (notice !== null) onNotice?.(notice);
  return { version: settings.version };
}

/** Throws for a server that must not be used. Returns a warning for one that was not tested. */
export function judgeServer(settings: ServerSettings, server: string): string | null {
  const major = Math.floor(settings.version / 10_000);
  if (major < OLDEST_MAJOR) {
    throw failure(
      'DATABASE_TOO_OLD',
      `${server} is PostgreSQL ${major}, but version ${OLDEST_MAJOR} or newer is required. ` +
        'Upgrade it, or unset DATABASE_URL to use the embedded server.',
    );
  }
  const off = DURABILITY_SETTINGS.filter((name) => settings[name] === 'off');
  if (off.length > 0) {
    throw failure(
      'DATABASE_UNSAFE',
      `${server} has ${off.join(' and ')} turned off, so a crash could lose accepted jobs. ` +
        `Turn ${off.length === 1 ? 'it' : 'them'} on (check ALTER DATABASE and ALTER ROLE settings too) and start again.`,
    );
  }
  if (major <= NEWEST_TESTED_MAJOR) return null;
  return `${server} is PostgreSQL ${major}; only versions up to ${NEWEST_TESTED_MAJOR} have been tested.`;
}

async function readSettings(url: string): Promise<ServerSettings> {
  try {
    return await withClient(url, async (client) => {
      const { rows } = await client.query<ServerSettings & { pid: number }>(READ_SETTINGS);
      const settings = rows[0]!;
      refusePooler(client, settings.pid, describe(url));
      return settings;
    });
  } catch (error) {
    if (isAppError(error)) throw error;
    throw failure(
      'DATABASE_UNREACHABLE',
      `${describe(url)} cannot be used: ${messageOf(error) || codeOf(error)}. ` +
        'Check that it runs, that the address, user, password and database name are correct, and that it accepts connections from here.',
      error,
    );
  }
}

/** Opens a connection for one piece of work. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new ScramClient({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  // A connection that breaks later must not cause an unhandled 'error' event.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** PostgreSQL sends a client the id of its server process. A pooler sends an invented one. */
function refusePooler(client: Client, pid: number, server: string): void {
  const { processID } = client as unknown as { processID?: number | null };
  if (typeof processID !== 'number' || processID === pid) return;
  throw failure(
    'DATABASE_POOLED',
    `${server} is a connection pooler such as PgBouncer. Session settings, prepared statements, LISTEN and session locks ` +
      'do not work through it. Use the address of PostgreSQL itself.',
  );
}

/** Names the server without its password. */
function describe(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return `The database ${pathname.slice(1) || '(default)'} at ${decodeURIComponent(host) || 'the local socket'}`;
  } catch {
    return 'The database named by DATABASE_URL';
  }
}
