/** Who may call `millrace.submit`, and what a caller cannot do with it. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { useBench } from './fixture.ts';

const bench = useBench();

async function idOf(client: pg.Client, list: string): Promise<string> {
  const { rows } = await client.query(`SELECT millrace.submit(${list}) AS id`);
  return rows[0].id;
}

describe('rights', () => {
  it('only the owner may call the function, until a role is granted it, and that role cannot read the tables', async () => {
    const admin = await bench.connect();
    const role = `producer_${randomBytes(4).toString('hex')}`;
    await admin.query(`CREATE ROLE ${role}`);
    onTestFinished(async () => {
      const again = new pg.Client({ connectionString: bench.ledger.db.url });
      await again.connect();
      await again.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`).finally(() => again.end());
    });
    const client = await bench.connect();
    await client.query(`SET ROLE ${role}`);
    await expect(idOf(client, `'t', '{}'`)).rejects.toMatchObject({ code: '42501' });
    await admin.query(`GRANT USAGE ON SCHEMA millrace TO ${role}`);
    await expect(idOf(client, `'t', '{}'`)).rejects.toMatchObject({ code: '42501', message: expect.stringContaining('function submit') });
    await admin.query(`GRANT EXECUTE ON FUNCTION millrace.submit TO ${role}`);
    const id = await idOf(
      client,
      `'t', '{}', queue => 'q:planning', idempotency_key => 'k', callback_url => 'https://example.com', limit_key => 'l', limit_concurrency => 1, max_attempts => 99`,
    );
    await expect(client.query('SELECT * FROM millrace.jobs')).rejects.toMatchObject({ code: '42501' });
    await expect(client.query('DELETE FROM millrace.queues')).rejects.toMatchObject({ code: '42501' });
    await expect(client.query(`SELECT millrace.limit_id_of(gen_random_uuid(), 'k', 1, NULL, NULL)`)).rejects.toMatchObject({
      code: '42501',
    });
    expect((await admin.query('SELECT id FROM millrace.jobs WHERE id = $1', [id])).rows).toHaveLength(1);
  });

  it('objects on the search path of a caller are not used', async () => {
    const client = await bench.connect();
    const schema = `trap_${randomBytes(4).toString('hex')}`;
    await client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}, pg_catalog`);
    await client.query(
      `CREATE FUNCTION ${schema}.sha256(bytea) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$`,
    );
    await client.query(
      `CREATE FUNCTION ${schema}.length(text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$`,
    );
    await expect(client.query(`SELECT length('a'::text)`)).rejects.toThrow('trapped');
    expect(await idOf(client, `'t', '{}', idempotency_key => 'untrapped', correlation_id => 'c'`)).toEqual(expect.any(String));
  });
});
