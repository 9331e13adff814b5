/** What a producer may not do, tried with its own session. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { createProducer, removeProducer } from '../../src/services/access/producers.ts';
import { useLedger } from '../ledger/fixture.ts';
import { migratedDatabase } from '../ledger/test-database.ts';
import { newName, publish, useProducers } from './producer-fixture.ts';

const ledger = useLedger();
const producers = useProducers(() => ledger.db.url);

const TASK = { job_type: 'default', job_id: randomUUID(), resource_id: 'a', url: 'https://example.com/' };
const DENIED = { code: '42501' };

const writesOf = (name: string): string[] => [
  `DELETE FROM millrace.${name}`,
  `TRUNCATE millrace.${name}`,
  `CREATE INDEX ON millrace.${name} ((1))`,
  ...(name === 'task_intake' ? [] : [`INSERT INTO millrace.${name} DEFAULT VALUES`]),
];

test('a producer inserts tasks and can do nothing else with any table, sequence or function [FB-5.08] [C89]', async () => {
  const client = await producers.connect(await producers.create());
  await publish(client, TASK);
  const { rows } =
    await ledger.db.api.query(`SELECT c.relname AS name, c.relkind = 'v' AS is_view FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'millrace' AND c.relkind IN ('r', 'p', 'v')`);
  expect(rows.length).toBeGreaterThan(20);
  for (const { name, is_view } of rows) {
    for (const statement of [
      `SELECT FROM millrace.${name}`,
      `DROP ${is_view ? 'VIEW' : 'TABLE'} millrace.${name}`,
      ...(is_view ? [] : writesOf(name)),
    ]) {
      await expect(client.query(statement), statement).rejects.toMatchObject(DENIED);
    }
  }
  for (const statement of [
    `UPDATE millrace.task_intake SET url = 'x'`,
    'SELECT id FROM millrace.task_intake',
    `SELECT nextval('millrace.task_intake_id_seq')`,
    `SELECT setval('millrace.task_intake_id_seq', 1)`,
    `SELECT millrace.submit('t', '{}')`,
    `SELECT millrace.create_producer('mallory', 'x', '${randomUUID()}')`,
    `SELECT millrace.delete_producer('mallory')`,
    'ALTER TABLE millrace.task_intake DISABLE TRIGGER ALL',
    'CREATE TABLE millrace.mine (n integer)',
    'CREATE ROLE mallory',
    `SET SESSION AUTHORIZATION ${new URL(ledger.db.url).username}`,
    `SET session_replication_role = 'replica'`,
  ]) {
    await expect(client.query(statement), statement).rejects.toMatchObject(DENIED);
  }
});

test('the org is that of the role that logged in, whatever the session says, and our own columns cannot be written [C89]', async () => {
  const [mine, other] = [await producers.create(), await producers.create()];
  const client = await producers.connect(mine);
  for (const [column, value] of [
    ['org_id', `'${other.orgId}'`],
    ['producer', `'${other.role}'`],
    ['received_at', 'now()'],
    ['bytes', '0'],
  ]) {
    const text = `INSERT INTO millrace.task_intake (job_type, resource_id, url, ${column}) VALUES ('default', 'a', 'x', ${value})`;
    await expect(client.query(text), text).rejects.toMatchObject(DENIED);
  }
  const withId = `INSERT INTO millrace.task_intake (id, job_type) OVERRIDING SYSTEM VALUE VALUES (1, 'default')`;
  await expect(client.query(withId)).rejects.toMatchObject(DENIED);
  await expect(client.query(`INSERT INTO millrace.task_intake (url) VALUES ('x') RETURNING org_id`)).rejects.toMatchObject(DENIED);
  await expect(client.query(`SET ROLE ${other.role}`)).rejects.toMatchObject(DENIED);
  await client.query('CREATE TEMP TABLE producers (role text, org_id uuid)');
  await client.query('INSERT INTO producers SELECT session_user, $1', [other.orgId]);
  await client.query('SET search_path = pg_temp, millrace; SET ROLE millrace_producer');
  await client.query(`INSERT INTO task_intake (job_type, resource_id, url) VALUES ('default', 'by the group', 'x')`);
  const { rows } = await ledger.db.api.query(`SELECT org_id, producer FROM millrace.task_intake WHERE resource_id = 'by the group'`);
  expect(rows).toEqual([{ org_id: mine.orgId, producer: mine.role }]);
  await client.query('RESET ROLE; DROP TABLE pg_temp.producers');
});

test('a task of more than 1 MB is refused when it is inserted', async () => {
  const client = await producers.connect(await producers.create());
  const large = publish(client, { ...TASK, tags: { text: 'x'.repeat(1_100_000) } });
  await expect(large).rejects.toMatchObject({ code: '54000', message: expect.stringContaining('at most 1 MB') });
});

test('a producer of one database cannot publish in another of the same server', async () => {
  const producer = await producers.create();
  const elsewhere = await migratedDatabase();
  const own = openDatabase({ url: elsewhere.url });
  const role = newName();
  const made = await createProducer(own, { role, org: 'default' });
  onTestFinished(async () => {
    await removeProducer(own, { role });
    await own.close();
    elsewhere.drop();
  });
  const url = new URL(made.url);
  url.username = producer.role;
  url.password = producer.password;
  const client = await producers.connect({ url: url.href });
  await expect(publish(client, TASK)).rejects.toMatchObject({ code: '42501', message: expect.stringContaining('is not a producer') });
});

test('names that a role cannot have are refused, a role that exists is left alone, and a removed one cannot log in', async () => {
  const database = ledger.db;
  for (const role of ['', 'A', '1a', 'pg_read_all_data', 'public', 'millrace_producer', 'a"; DROP', '__proto__', 'é', 'a'.repeat(64)]) {
    await expect(createProducer(database, { role, org: 'default' }), role).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  }
  await expect(createProducer(database, { role: newName(), org: 'nobody' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const made = await producers.create();
  await expect(createProducer(database, { role: made.role, org: 'default' })).rejects.toMatchObject({ code: 'CONFLICT' });
  const client = await producers.connect(made);
  await removeProducer(database, { role: made.role });
  await expect(publish(client, TASK)).rejects.toMatchObject(DENIED);
  await expect(producers.connect(made)).rejects.toMatchObject({ code: '28P01' });
  const { rows } = await database.api.query('SELECT current_user AS name');
  await expect(removeProducer(database, { role: rows[0].name })).rejects.toMatchObject({ code: 'NOT_FOUND' });
});

test('a database user without CREATEROLE is told what it needs', async () => {
  const role = newName();
  const admin = new pg.Client({ connectionString: ledger.db.url });
  await admin.connect();
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'; GRANT ALL ON SCHEMA millrace TO ${role};
    GRANT ALL ON ALL TABLES IN SCHEMA millrace TO ${role}; GRANT ALL ON ALL FUNCTIONS IN SCHEMA millrace TO ${role}`);
  const url = new URL(ledger.db.url);
  url.username = role;
  url.password = 'secret';
  const weak = openDatabase({ url: url.href });
  onTestFinished(async () => {
    await weak.close();
    await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    await admin.end();
  });
  const refused = createProducer(weak, { role: newName(), org: 'default' });
  await expect(refused).rejects.toMatchObject({ code: 'FORBIDDEN', message: expect.stringContaining('CREATEROLE') });
});
