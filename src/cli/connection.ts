import { type Config, type LoadedConfig, type LoadParams, loadConfig } from '../config/load-config.ts';
import { showDuration } from '../config/values.ts';
import { DEFAULT_LIMITS } from '../core/submission.ts';
import type { Engine } from '../engine/engine.ts';
import { type Database, openDatabase } from '../ledger/driver/database.ts';
import { checkSchema, migrate } from '../ledger/driver/migrate.ts';
import { Millrace } from '../library/millrace.ts';
import type { OpenOptions } from '../library/open-options.ts';
import { openPostgres } from '../postgres/open.ts';
import { createEngine } from '../services/jobs/create-engine.ts';
import type { CommonValues } from './command.ts';
import type { Output } from './output.ts';
import { visibleLine } from './visible-text.ts';

export type Connection = { values: CommonValues; out: Output };

/** Merges the settings of the file, the environment and the command line. Later sources take precedence. */
export function settingsOf(values: CommonValues, options: LoadParams['options'] = {}): LoadedConfig {
  const { database, home } = values;
  // A named data folder takes precedence over a server named in the environment.
  const url = database === undefined && home !== undefined ? { option: 'home', text: '' } : { option: 'database', text: database };
  const common = { 'database.url': url, 'database.home': { option: 'home', text: home } };
  const loaded = loadConfig({ file: values.config, options: { ...common, ...options } });
  for (const warning of loaded.warnings) warnOnce(warning);
  return loaded;
}

const warned = new Set<string>();

/** A command may read the settings more than once. */
function warnOnce(sentence: string): void {
  if (warned.has(sentence)) return;
  warned.add(sentence);
  process.stderr.write(`${visibleLine(sentence)}\n`);
}

export function openMillrace({ values, out }: Connection, options: OpenOptions = {}): Promise<Millrace> {
  const { config } = settingsOf(values);
  return Millrace.open({ ...openOptionsOf(config), onNotice: (sentence) => out.note(sentence), ...options });
}

/** The options of the library that the configuration sets. */
export const openOptionsOf = ({
  database,
  limits,
  profile: { profile: _, ...defaults },
  categories,
  execution,
  workers,
  ...config
}: Config): OpenOptions => ({
  database: database.url ?? '',
  home: database.home,
  pools: { api: database.apiPool ?? undefined, workers: database.workerPool ?? undefined },
  defaults,
  categories: categoryOptionsOf(categories),
  maxPayloadBytes: limits.payloadBytes,
  maxResultBytes: limits.resultBytes,
  heartbeat: showDuration(execution.heartbeatMs),
  exitWhenBlocked: workers.exitWhenBlocked,
  keepRevokedKeys: showDuration(execution.revokedKeysMs),
  objects: objectsOf(config),
});

const categoryOptionsOf = (categories: Config['categories']): OpenOptions['categories'] =>
  Object.fromEntries(
    [...categories.values()].map(({ name, queue, maxAttempts, poisonAfter, assignmentGrants, ...delays }) => {
      const { baseDelayMs, maxDelayMs, keyWindowMs } = delays;
      const times = { baseDelay: showDuration(baseDelayMs), maxDelay: showDuration(maxDelayMs), keyWindow: showDuration(keyWindowMs) };
      return [name, { queue, maxAttempts, poisonAfter, assignmentGrants, ...times }];
    }),
  );

function objectsOf({ objects, artifacts }: Pick<Config, 'objects' | 'artifacts'>): OpenOptions['objects'] {
  const { kind, folder, endpoint, region, accessKey, secretKey, forcePathStyle } = objects;
  const rest = { bucket: artifacts.bucket, maxBytes: artifacts.maxBytes, retention: showDuration(artifacts.retentionMs) };
  if (kind === 'folder') return { folder, ...rest };
  // Without keys there is no object store. A handler that needs one learns so.
  if (accessKey === null || secretKey === null) return undefined;
  return { s3: { region, accessKey, secretKey, forcePathStyle, ...(endpoint === null ? {} : { endpoint }) }, ...rest };
}

/** Opens the engine for one command that reads or changes jobs of any org. It runs no jobs. */
export function withEngine<T>(connection: Connection, work: (engine: Engine) => Promise<T>): Promise<T> {
  const { profile, categories, limits, deadLetters } = settingsOf(connection.values).config;
  return withLedger(connection, async (database) => {
    const payloads = { ...DEFAULT_LIMITS, maxPayloadBytes: limits.payloadBytes };
    const engine = createEngine({ database, profile, categories, deadLetters, limits: payloads });
    await engine.open();
    try {
      return await work(engine);
    } finally {
      await engine.close(0);
    }
  });
}

/** Opens the database without a check of its schema. */
export async function withDatabase<T>({ values, out }: Connection, work: (database: Database) => Promise<T>): Promise<T> {
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

/** Opens the database with the current schema: it migrates an embedded database, and checks a shared one. */
export function withLedger<T>(connection: Connection, work: (database: Database) => Promise<T>): Promise<T> {
  return withDatabase(connection, async (database) => {
    if (dataFolder(connection.values) === null) await checkSchema(database.maintenance);
    else await migrate(database.maintenance);
    return work(database);
  });
}

/** The folder of the embedded server; null for another server. */
export function dataFolder(values: CommonValues): string | null {
  const { url, home } = settingsOf(values).config.database;
  return url === null ? home : null;
}

/** Replaces passwords in a URL, so that it can be shown. */
export function maskPassword(url: string): string {
  try {
    const masked = new URL(url);
    if (masked.password !== '') masked.password = '***';
    for (const name of masked.searchParams.keys()) if (/password/i.test(name)) masked.searchParams.set(name, '***');
    return masked.href;
  } catch {
    return '(a URL that cannot be shown)';
  }
}
