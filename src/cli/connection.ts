import { type Config, type LoadedConfig, type LoadParams, loadConfig } from '../config/load-config.ts';
import { showDuration } from '../config/values.ts';
import { type Database, openDatabase } from '../ledger/driver/database.ts';
import { Millrace } from '../library/millrace.ts';
import type { OpenOptions } from '../library/open-options.ts';
import { openPostgres } from '../postgres/open.ts';
import type { CommonValues } from './command.ts';
import type { Output } from './output.ts';

export type Connection = { values: CommonValues; out: Output };

/** The settings for one call: the file, the environment, and above them what the command line says. */
export function settingsOf(values: CommonValues, options: LoadParams['options'] = {}): LoadedConfig {
  const { database, home } = values;
  // A data folder that was named wins over a server that happens to be in the environment.
  const url =
    database === undefined && home !== undefined
      ? { option: 'home', text: '' }
      : { option: 'database', text: database };
  const common = { 'database.url': url, 'database.home': { option: 'home', text: home } };
  const loaded = loadConfig({ file: values.config, options: { ...common, ...options } });
  for (const warning of loaded.warnings) warnOnce(warning);
  return loaded;
}

const warned = new Set<string>();

/** Settings are read more than once in a call. */
function warnOnce(sentence: string): void {
  if (warned.has(sentence)) return;
  warned.add(sentence);
  process.stderr.write(`${sentence}\n`);
}

/** Opens Millrace where the common options, or else the environment, say. */
export function openMillrace({ values, out }: Connection, options: OpenOptions = {}): Promise<Millrace> {
  const { config } = settingsOf(values);
  return Millrace.open({ ...openOptionsOf(config), onNotice: (sentence) => out.note(sentence), ...options });
}

/** What the configuration says to the library. */
export const openOptionsOf = ({ database, limits, profile, execution }: Config): OpenOptions => ({
  database: database.url ?? '',
  home: database.home,
  pools: { api: database.apiPool ?? undefined, workers: database.workerPool ?? undefined },
  defaults: profile,
  maxPayloadBytes: limits.payloadBytes,
  heartbeat: showDuration(execution.heartbeatMs),
  keepRevokedKeys: showDuration(execution.revokedKeysMs),
});

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
  const settings = settingsOf(values).config.database;
  const postgres = await openPostgres({
    databaseUrl: settings.url ?? '',
    home: settings.home,
    onNotice: (sentence) => out.note(sentence),
  });
  const database = openDatabase({ url: postgres.url });
  try {
    return await work(database);
  } finally {
    await database.close();
    await postgres.close();
  }
}

const isEmbedded = (values: CommonValues): boolean => settingsOf(values).config.database.url === null;

/** The folder of the embedded server; null when another server is used. */
export function dataFolder(values: CommonValues): string | null {
  const { url, home } = settingsOf(values).config.database;
  return url === null ? home : null;
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
