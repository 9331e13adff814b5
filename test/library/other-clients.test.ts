/** Transactions of other libraries, with the adapters that docs/guides/transactions.md shows. */
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleOnPostgresJs } from 'drizzle-orm/postgres-js';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Queryable } from '../../src/index.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { newProject } from '../ledger/new-project.ts';
import { useStage } from './fixture.ts';

const stage = useStage();
const closing: (() => Promise<unknown>)[] = [];

type Library = {
  name: string;
  /** Calls the work inside a transaction, which is rolled back if the work throws. */
  transaction<T>(work: (client: Queryable) => Promise<T>): Promise<T>;
  /** Sends each statement outside a transaction. */
  outside: Queryable;
};

type Executor = { execute(query: ReturnType<typeof sql.raw>): PromiseLike<unknown> };

/** Drizzle numbers parameters itself, so the text is split at ours. */
const ofDrizzle = (tx: Executor): Queryable => ({
  async query(text, values = []) {
    const parts = text.split(/\$(\d+)/).map((part, index) => (index % 2 === 0 ? sql.raw(part) : sql`${values[Number(part) - 1]}`));
    const result = (await tx.execute(sql.join(parts))) as { rows: unknown[] } | unknown[];
    return { rows: Array.isArray(result) ? [...result] : result.rows };
  },
});

function libraries(url: string): Library[] {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const kysely = new Kysely<Record<string, never>>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 4 }) }),
  });
  const address = new URL(url);
  const js = postgres({
    host: address.hostname.startsWith('%2F') ? decodeURIComponent(address.hostname) : address.hostname,
    port: Number(address.port || 5432),
    username: decodeURIComponent(address.username),
    password: decodeURIComponent(address.password),
    database: address.pathname.slice(1),
    max: 4,
  });
  closing.push(
    () => pool.end(),
    () => kysely.destroy(),
    () => js.end(),
  );
  const onPool = drizzle(pool);
  const onJs = drizzleOnPostgresJs(js);
  const ofKysely = (executor: Pick<typeof kysely, 'executeQuery'>): Queryable => ({
    query: (text, values = []) => executor.executeQuery(CompiledQuery.raw(text, values)),
  });
  const ofPostgresJs = (executor: Pick<postgres.Sql, 'unsafe'>): Queryable => ({
    query: async (text, values = []) => ({ rows: await executor.unsafe(text, values as never[]) }),
  });
  return [
    { name: 'Kysely', transaction: (work) => kysely.transaction().execute((trx) => work(ofKysely(trx))), outside: ofKysely(kysely) },
    { name: 'Drizzle on pg', transaction: (work) => onPool.transaction((tx) => work(ofDrizzle(tx))), outside: ofDrizzle(onPool) },
    { name: 'Drizzle on postgres.js', transaction: (work) => onJs.transaction((tx) => work(ofDrizzle(tx))), outside: ofDrizzle(onJs) },
    { name: 'postgres.js', transaction: (work) => js.begin((tx) => work(ofPostgresJs(tx))) as never, outside: ofPostgresJs(js) },
  ];
}

let all: Map<string, Library>;
beforeAll(async () => {
  await stage.ledger.db.maintenance.query('CREATE TABLE orders (item text)');
  all = new Map(libraries(stage.ledger.db.url).map((library) => [library.name, library]));
});
afterAll(() => Promise.all(closing.map((close) => close())));

const items = async () => (await stage.ledger.db.maintenance.query('SELECT item FROM orders ORDER BY item')).rows.map(({ item }) => item);

describe.each(['Kysely', 'Drizzle on pg', 'Drizzle on postgres.js', 'postgres.js'])('%s', (name) => {
  const library = () => all.get(name) as Library;

  it('commits rows and jobs together, and a rollback leaves neither', async () => {
    const first = await stage.millrace.submit(stage.acting(() => 1));
    const before = await items();
    const gone: string[] = [];
    const failing = library().transaction(async (client) => {
      await client.query('INSERT INTO orders VALUES ($1)', [`${name} lamp`]);
      gone.push(
        (
          await stage.millrace.submit(
            stage.acting(() => 1),
            { client },
          )
        ).jobId,
      );
      throw new Error('the card was refused');
    });
    await expect(failing).rejects.toThrow('the card was refused');
    expect(await items()).toEqual(before);
    expect(await stage.millrace.get(gone[0] as string)).toBeNull();

    await newProject(stage.ledger.db, DEFAULT_ORG_ID, first.jobId as string);
    const tags = { 'quote " \\ and, comma': 'Ä 漢 {}' };
    const whole = stage.acting(() => 'whole', {
      tags,
      idempotencyKey: name,
      correlationId: '{c}',
      projectId: first.jobId,
      category: 'maintenance',
      delay: '1ms',
    });
    const { results, again, bytes } = await library().transaction(async (client) => {
      await client.query('INSERT INTO orders VALUES ($1)', [`${name} chair`]);
      const bytes = await stage.millrace.submit({ type: 'bytes', payload: new Uint8Array([0, 255]) }, { client });
      const submissions = [stage.acting(() => 'plain'), whole, stage.acting(() => 'dependent', { dependsOn: [first.jobId] })];
      const { results } = await stage.millrace.submitMany(submissions, { client });
      return { results, bytes, again: await stage.millrace.submit(whole, { client }) };
    });
    expect(again).toMatchObject({ status: 'DUPLICATE', existingJobId: results[1]?.jobId, createdAt: expect.any(Date) });
    expect(await items()).toEqual([...before, `${name} chair`].sort());
    const ended = await Promise.all(results.map(({ jobId }) => stage.end(jobId as string)));
    expect(ended.map(({ result }) => result?.output)).toEqual(['plain', 'whole', 'dependent']);
    expect(ended[1]).toMatchObject({ tags, correlationId: '{c}' });
    expect(Buffer.from((await stage.millrace.get(bytes.jobId))?.payload as Uint8Array)).toEqual(Buffer.from([0, 255]));
  });

  it('is refused outside a transaction, and after its transaction has failed', async () => {
    const job = { type: `outside ${name}`, payload: {} };
    await expect(stage.millrace.submit(job, { client: library().outside })).rejects.toMatchObject({
      details: [{ field: 'client', code: 'NOT_IN_TRANSACTION', message: expect.stringContaining('Send BEGIN on it first') }],
    });
    const failed = library().transaction(async (client) => {
      await Promise.resolve(client.query('SELECT 1 / 0')).catch(() => {});
      await stage.millrace.submit(job, { client });
    });
    // postgres.js reports the first failure of a transaction instead of the last.
    await expect(failed).rejects.toMatchObject(name.endsWith('postgres.js') ? {} : { details: [{ code: 'TRANSACTION_FAILED' }] });
    expect((await stage.millrace.search({ types: [job.type] })).totalCount).toBe(0);
  });

  it('completes a job, and carries its checkpoint, progress and child', async () => {
    const ended = await stage.end(
      await stage.act((context) =>
        library().transaction(async (client) => {
          await context.assertOwned(client);
          await context.checkpoint({ step: 'one', quote: '"' });
          await context.reportProgress(50, 'half');
          const child = await context.spawn(stage.acting(() => 'child'));
          await context.completeIn(client, { child, state: await context.lastCheckpoint() });
        }),
      ),
    );
    expect(ended.lastFailure).toBeNull();
    const output = ended.result?.output as { child: string; state: unknown };
    expect(output.state).toEqual({ step: 'one', quote: '"' });
    expect((await stage.end(output.child)).result?.output).toBe('child');
  });
});
