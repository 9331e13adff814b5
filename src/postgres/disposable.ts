/** A database of its own on any server, for as long as somebody needs it. */
import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { type OpenPostgresOptions, openPostgres } from './open.ts';

export type DisposableDatabase = {
  name: string;
  url: string;
  /** Drops the database, whoever is connected to it, and lets go of the server. Safe to call twice. */
  drop(): Promise<void>;
};

export async function createDisposable(options: OpenPostgresOptions & { prefix: string }): Promise<DisposableDatabase> {
  const server = await openPostgres(options);
  const name = `${options.prefix}${randomBytes(6).toString('hex')}`;
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  try {
    await onServer(server.url, `CREATE DATABASE ${name}`);
  } catch (error) {
    await server.close();
    throw error;
  }
  let dropping: Promise<void> | undefined;
  const drop = () => {
    dropping ??= onServer(server.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).finally(() => server.close());
    return dropping;
  };
  return { name, url: url.href, drop };
}

async function onServer(url: string, command: string): Promise<void> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query(command);
  } finally {
    await client.end().catch(() => undefined);
  }
}
