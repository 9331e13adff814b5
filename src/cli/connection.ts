import { resolve } from 'node:path';
import { type Database, openDatabase } from '../ledger/database.ts';
import { Millrace, type OpenOptions } from '../library/millrace.ts';
import { openPostgres } from '../postgres/open.ts';
import type { CommonValues } from './command.ts';
import type { Output } from './output.ts';

type Connection = { values: CommonValues; out: Output };

/** Opens Millrace where the common options, or else the environment, say. */
export function openMillrace({ values, out }: Connection, options: OpenOptions = {}): Promise<Millrace> {
  return Millrace.open({ ...addressOf(values), onNotice: (sentence) => out.note(sentence), ...options });
}

/**
 * For one question or one change. An embedded database is brought up to date on the way; one that others share is
 * migrated when somebody says so, not because somebody looked.
 */
export async function withMillrace<T>(connection: Connection, work: (millrace: Millrace) => Promise<T>): Promise<T> {
  const millrace = await openMillrace(connection, { migrate: isEmbedded(connection.values) });
  try {
    return await work(millrace);
  } finally {
    await millrace.close({ grace: 0 });
  }
}

/** The ledger alone, whatever its schema. */
export async function withDatabase<T>(
  { values, out }: Connection,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const { database: databaseUrl, home } = addressOf(values);
  const postgres = await openPostgres({ databaseUrl, home, onNotice: (sentence) => out.note(sentence) });
  const database = openDatabase({ url: postgres.url });
  try {
    return await work(database);
  } finally {
    await database.close();
    await postgres.close();
  }
}

/** A data folder that was named wins over a server that happens to be in the environment. */
function addressOf({ database, home }: CommonValues): Pick<OpenOptions, 'database' | 'home'> {
  return { database: database ?? (home === undefined ? undefined : ''), home };
}

const isEmbedded = ({ database, home }: CommonValues): boolean =>
  !(database ?? (home === undefined ? process.env.DATABASE_URL : ''));

/** The folder of the embedded server; null when another server is used. */
export function dataFolder(values: CommonValues): string | null {
  return isEmbedded(values) ? resolve(values.home || process.env.MILLRACE_HOME || '.millrace') : null;
}

/** Fit to be shown: whoever looks over the shoulder learns no password. */
export function maskPassword(url: string): string {
  try {
    const masked = new URL(url);
    if (masked.password !== '') masked.password = '***';
    for (const name of masked.searchParams.keys()) if (/password/i.test(name)) masked.searchParams.set(name, '***');
    return masked.href;
  } catch {
    return '(an address that cannot be shown)';
  }
}
