/**
 * Tries a real PgBouncer in front of a real PostgreSQL: in each pool mode, with settings that it refuses and with settings that it
 * silently drops. Millrace must refuse each with DATABASE_POOLED and never work without its time limits. Run it with
 * `node chaos/pgbouncer.ts`. It says so and ends where PgBouncer is not installed.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Millrace } from '../src/index.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import type { Queryable } from '../src/ledger/driver/statement.ts';
import { createPostgres, freePort } from './postgres-server.ts';

const MODES = ['session', 'transaction', 'statement'] as const;
const DROPPED = 'extra_float_digits,options,statement_timeout,lock_timeout,idle_in_transaction_session_timeout';
const KINDS = ['api', 'searching', 'workers', 'maintenance', 'projecting', 'submitting', 'claiming', 'finishing'] as const;
/** The account that PgBouncer runs as; it refuses to run as root. */
const NOBODY = 65_534;

type Setup = { mode: (typeof MODES)[number]; drops: boolean; folder: string; serverPort: number };

async function startPooler({ mode, drops, folder, serverPort }: Setup): Promise<{ url: string; process: ChildProcess }> {
  const port = await freePort();
  const file = join(folder, `${mode}-${drops}.ini`);
  const settings = [
    '[databases]',
    `postgres = host=127.0.0.1 port=${serverPort} dbname=postgres user=admin`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    `pool_mode = ${mode}`,
    'default_pool_size = 5',
    ...(drops ? [`ignore_startup_parameters = ${DROPPED}`] : []),
  ];
  await writeFile(file, `${settings.join('\n')}\n`, { mode: 0o644 });
  const account = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const pooler = spawn('pgbouncer', [file], { stdio: 'ignore', ...account });
  const url = `postgres://admin@127.0.0.1:${port}/postgres`;
  await untilUp(url);
  return { url, process: pooler };
}

async function untilUp(url: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query('SELECT 1');
      await client.end();
      return;
    } catch {
      await delay(50);
    }
  }
  throw new Error('PgBouncer does not take connections.');
}

const codeOf = (error: unknown): string => {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return cause?.code === undefined ? (code ?? String(error)) : `${code} (${cause.code})`;
};

/** Opens the library and each kind of session, and returns the result of each. */
async function tryPooler(url: string): Promise<Map<string, string>> {
  const outcomes = new Map<string, string>();
  try {
    const millrace = await Millrace.open({ database: url });
    outcomes.set('open', 'accepted');
    await millrace.close({ grace: 0 });
  } catch (error) {
    outcomes.set('open', `${codeOf(error)}: ${(error as Error).message}`);
  }
  const database = openDatabase({ url });
  for (const kind of KINDS) {
    const asked = (database[kind] as Queryable).query({ text: 'SELECT 1' });
    outcomes.set(kind, await asked.then(() => 'accepted', codeOf));
  }
  await database.close();
  return outcomes;
}

async function main(): Promise<void> {
  if (spawnSync('pgbouncer', ['--version']).error !== undefined) {
    console.log('PgBouncer is not on the PATH: nothing was tried.');
    return;
  }
  const folder = join(tmpdir(), `millrace-pgbouncer-${randomUUID()}`);
  await mkdir(folder, { mode: 0o755 });
  const postgres = await createPostgres();
  let accepted = 0;
  for (const mode of MODES) {
    for (const drops of [false, true]) {
      const serverPort = Number(new URL(postgres.url).port);
      const pooler = await startPooler({ mode, drops, folder, serverPort });
      const outcomes = await tryPooler(pooler.url);
      console.log(`${mode} mode, settings are ${drops ? 'dropped' : 'refused'}:`);
      for (const [kind, outcome] of outcomes) {
        console.log(`  ${kind.padEnd(12)} ${outcome}`);
        if (outcome === 'accepted') accepted++;
      }
      pooler.process.kill();
      await once(pooler.process, 'exit');
    }
  }
  await postgres.remove();
  await rm(folder, { recursive: true, force: true });
  console.log(accepted === 0 ? 'Refused everywhere.' : `Accepted ${accepted} times.`);
  process.exitCode = accepted === 0 ? 0 : 1;
}

await main();
