/** A temporary database on any server. */
import { randomBytes } from 'node:crypto';
import { withClient } from './check.ts';
import { type OpenPostgresOptions, openPostgres } from './open.ts';

export type DisposableDatabase = {
  name: string;
  url: string;
  /** Drops the database, even if sessions are connected to it, and closes the server. Safe to call twice. */
  drop(): Promise<void>;
};

export async function createDisposable(options: OpenPostgresOptions & { prefix: string }): Promise<DisposableDatabase> {
  const server = await openPostgres(options);
  const execute = (command: string) => withClient(server.url, (client) => client.query(command));
  const name = `${options.prefix}${randomBytes(6).toString('hex')}`;
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  try {
    await execute(`CREATE DATABASE ${name}`);
  } catch (error) {
    await server.close();
    throw error;
  }
  let dropping: Promise<void> | undefined;
  const drop = async () => {
    await execute(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).finally(() => server.close());
  };
  return {
    name,
    url: url.href,
    drop: () => {
      dropping ??= drop();
      return dropping;
    },
  };
}
