import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { type Database, openDatabase } from '../../src/ledger/database.ts';
import { migrate, readMigrations } from '../../src/ledger/migrate.ts';
import { readFeed, startOf } from '../../src/ledger/read-feed.ts';

const FEED = 6;

async function emptyDatabase(): Promise<Database> {
  const name = `millrace_test_${randomBytes(6).toString('hex')}`;
  const admin = new pg.Client({ connectionString: inject('postgresUrl') });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${name}`;
  const database = openDatabase({ url: url.href });
  onTestFinished(async () => {
    await database.close();
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
  });
  return database;
}

const tell = (database: Database, orgId: string, n: number) =>
  database.maintenance.query(
    `INSERT INTO millrace.events (at, job_seq, org_id, lease_seq, to_state, n, attempt, reason)
     VALUES (now(), 1, $1, 0, 'scheduled', $2, 1, 'submitted')`,
    [orgId, n],
  );

const fileOf = async (database: Database) =>
  (await database.maintenance.query(`SELECT pg_relation_filenode('millrace.events_default') AS file`)).rows[0].file;

test('events written before there was a feed come first in it, and are not rewritten for it', async () => {
  const database = await emptyDatabase();
  const orgId = randomUUID();
  await migrate(
    database.maintenance,
    readMigrations().filter(({ version }) => version < FEED),
  );
  await tell(database, orgId, 1);
  await tell(database, orgId, 2);
  const before = await fileOf(database);
  await migrate(database.maintenance);
  expect(await fileOf(database)).toBe(before);
  await tell(database, orgId, 3);
  const { rows } = await database.maintenance.query(
    'SELECT n, txid::text FROM millrace.events ORDER BY txid, job_seq, n',
  );
  expect(rows).toEqual([
    { n: 1, txid: '0' },
    { n: 2, txid: '0' },
    { n: 3, txid: expect.stringMatching(/^[1-9]\d+$/) },
  ]);
  const page = await readFeed(database.api, [orgId], { after: startOf(0), limit: 2 });
  expect(page.end).toEqual({ txid: 0, jobSeq: 1, n: 2 });
});
