/** What any server must be before jobs are trusted to it, embedded or given. */
import { Client } from 'pg';
import { isAppError } from '../core/errors.ts';
import { codeOf, failure, messageOf } from './failure.ts';

const OLDEST_MAJOR = 15;
const NEWEST_TESTED_MAJOR = 18;
const CONNECT_TIMEOUT_MS = 10_000;
const DURABILITY_SETTINGS = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;

export type ServerFacts = { version: number };

export type ServerSettings = { version: number } & Record<(typeof DURABILITY_SETTINGS)[number], string>;

const READ_SETTINGS = `
  SELECT current_setting('server_version_num')::int AS version,
         pg_backend_pid() AS pid,
         current_setting('fsync') AS fsync,
         current_setting('synchronous_commit') AS synchronous_commit,
         current_setting('full_page_writes') AS full_page_writes`;

/** Refuses a server that is too old or that would lose an acknowledged job in a crash. */
export async function checkServer(url: string, onNotice: (sentence: string) => void = () => {}): Promise<ServerFacts> {
  const settings = await readSettings(url);
  const notice = judgeServer(settings, describe(url));
  if (notice !== null) onNotice(notice);
  return { version: settings.version };
}

/** Throws for a server that must not be used; returns a sentence for one that may be used with care. */
export function judgeServer(settings: ServerSettings, server: string): string | null {
  const major = Math.floor(settings.version / 10_000);
  if (major < OLDEST_MAJOR) {
    throw failure(
      'DATABASE_TOO_OLD',
      `${server} is PostgreSQL ${major}, and version ${OLDEST_MAJOR} or newer is needed. ` +
        'Upgrade it, or unset DATABASE_URL to use the embedded one.',
    );
  }
  const off = DURABILITY_SETTINGS.filter((name) => settings[name] === 'off');
  if (off.length > 0) {
    throw failure(
      'DATABASE_UNSAFE',
      `${server} has ${off.join(' and ')} turned off, so a crash could lose jobs that were already accepted. ` +
        `Turn ${off.length === 1 ? 'it' : 'them'} on (also look at ALTER DATABASE and ALTER ROLE settings) and start again.`,
    );
  }
  if (major <= NEWEST_TESTED_MAJOR) return null;
  return `${server} is PostgreSQL ${major}; only versions up to ${NEWEST_TESTED_MAJOR} have been tested.`;
}

async function readSettings(url: string): Promise<ServerSettings> {
  let client: Client | undefined;
  try {
    client = new Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
    // A connection that breaks after the answer must not become an unhandled 'error' event.
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query<ServerSettings & { pid: number }>(READ_SETTINGS);
    const settings = rows[0]!;
    refusePooler(client, settings.pid, describe(url));
    return settings;
  } catch (error) {
    if (isAppError(error)) throw error;
    throw failure(
      'DATABASE_UNREACHABLE',
      `${describe(url)} cannot be used: ${messageOf(error) || codeOf(error)}. ` +
        'Check that it runs, that the address, user, password and database name are right, and that this machine may connect.',
      error,
    );
  } finally {
    await client?.end().catch(() => undefined);
  }
}

/** The id that a client gets when it connects is the id of its server process. A pooler makes one up. */
function refusePooler(client: Client, pid: number, server: string): void {
  const { processID } = client as unknown as { processID?: number | null };
  if (typeof processID !== 'number' || processID === pid) return;
  throw failure(
    'DATABASE_POOLED',
    `${server} is a pooler such as PgBouncer. Time limits, planner settings, prepared statements, LISTEN and session locks ` +
      'do not pass through it. Give the address of PostgreSQL itself.',
  );
}

/** Names the server without its password. */
function describe(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return `The database ${pathname.slice(1) || '(default)'} at ${host || 'the local socket'}`;
  } catch {
    return 'The database named by DATABASE_URL';
  }
}
