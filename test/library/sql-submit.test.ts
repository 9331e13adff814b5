/** `millrace.submit`, as SQL clients, triggers and roles use it. */
import type pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { insist, useBench } from './fixture.ts';
import { submitBySql } from './sql-submission.ts';

const bench = useBench();

async function idOf(client: pg.Client, list: string): Promise<string> {
  const { rows } = await client.query(`SELECT millrace.submit(${list}) AS id`);
  return rows[0].id;
}

/** The number of rows in each table of the schema, as the client sees them. */
async function counts(client: pg.Client): Promise<Record<string, number>> {
  const { rows } =
    await client.query(`SELECT relname, (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM millrace.' || relname, false, true, '')))[1]::text::int4 AS n
    FROM pg_class WHERE relnamespace = 'millrace'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname`);
  return Object.fromEntries(rows.map(({ relname, n }) => [relname, n]));
}

/** What arrives on the channel of Millrace from SQL. Engines of other tests have closed before. */
async function heard(): Promise<{ words: string[]; all(): Promise<string[]> }> {
  const client = await bench.connect();
  const words: string[] = [];
  client.on('notification', ({ payload = '' }) => {
    if (payload.startsWith('sql ')) words.push(payload.slice(4));
  });
  await client.query('LISTEN millrace');
  // The server sends notifications before its next response.
  return { words, all: () => client.query('SELECT 1').then(() => words) };
}

const EVERYTHING = `'t', '{"a": 1}', queue => 'q:planning', idempotency_key => 'k', tags => '{"a": "b"}', callback_url => 'https://example.com',
  limit_key => 'l', limit_concurrency => 1, max_attempts => 99`;

describe('a transaction', () => {
  it('that is rolled back or cut off leaves nothing, and wakes nobody', async () => {
    const client = await bench.connect();
    const ears = await heard();
    const before = await counts(client);
    await client.query('BEGIN');
    const id = await idOf(client, EVERYTHING);
    await idOf(client, `'t', '{}', delay => '1 h'`);
    await idOf(client, `'t', '{}', depends_on => ARRAY['${id}'::uuid]`);
    expect(await counts(client)).not.toEqual(before);
    await client.query('ROLLBACK');
    expect(await counts(client)).toEqual(before);

    const cut = await bench.connect();
    const { rows } = await cut.query('SELECT pg_backend_pid() AS pid');
    await cut.query('BEGIN');
    await idOf(cut, EVERYTHING);
    await client.query('SELECT pg_terminate_backend($1, 10000)', [rows[0].pid]);
    expect(await counts(client)).toEqual(before);
    expect(await ears.all()).toEqual([]);
    expect(await bench.violations()).toEqual([]);
  });

  it('wakes workers when it commits, once for each kind of work', async () => {
    const client = await bench.connect();
    const ears = await heard();
    await client.query('BEGIN');
    const id = await idOf(client, `'t', '{}'`);
    await idOf(client, `'t', '{}'`);
    await idOf(client, `'t', '{}', delay => '1 h'`);
    await idOf(client, `'t', '{}', depends_on => ARRAY['${id}'::uuid]`);
    await idOf(client, `'t', '{}', limit_key => 'wake', limit_concurrency => 1`);
    expect(await ears.all()).toEqual([]);
    await client.query('COMMIT');
    await until('the notifications have arrived', async () => (await ears.all()).length, 4);
    expect(ears.words).toEqual(['ready', 'timers', 'releases', expect.stringMatching(/^limits=\d+$/)]);
  });

  it('that fails because of a refusal can be continued from a savepoint', async () => {
    const client = await bench.connect();
    await client.query('BEGIN');
    await client.query('SAVEPOINT before_job');
    await expect(idOf(client, `'', '{}'`)).rejects.toMatchObject({ code: 'MR001' });
    await client.query('ROLLBACK TO SAVEPOINT before_job');
    const id = await idOf(client, `'t', '{}'`);
    await client.query('COMMIT');
    const millrace = await bench.open();
    expect((await millrace.get(id))?.state).toBe('scheduled');
  });
});

describe('a worker that polls only every ten minutes', () => {
  it('runs jobs of every kind as soon as they are due', async () => {
    const engine = createEngine({ database: bench.ledger.db, profile: PROFILES.gopherqueue, pollMs: 600_000 });
    await engine.open();
    onTestFinished(() => engine.close(0));
    const done: string[] = [];
    engine.registry.register({ type: 'woken', handler: (context) => void done.push(context.jobId) });
    await engine.start();
    const client = await bench.connect();
    const first = await idOf(client, `'woken', '{}'`);
    await until('the first has run', () => done, [first]);
    for (const options of [`delay => '20 ms'`, `limit_key => 'one', limit_concurrency => 1`, `queue => 'q:maintenance'`]) {
      const id = await idOf(client, `'woken', '{}', ${options}`);
      await until(`the job with ${options} has run`, () => done.at(-1) === id);
    }
    await client.query('BEGIN');
    const slow = await idOf(client, `'woken', '{}', delay => '50 ms'`);
    const dependent = await idOf(client, `'woken', '{}', depends_on => ARRAY['${slow}'::uuid]`);
    await client.query('COMMIT');
    await until('the job that depends on another has run', () => done.at(-1) === dependent);
  });

  it('and supplies a backoff function permits CUSTOM while it lives', async () => {
    const client = await bench.connect();
    const call = `'own-backoff', '{}', backoff_strategy => 'CUSTOM', queue => 'q:exports'`;
    await expect(idOf(client, call)).rejects.toMatchObject({ detail: expect.stringContaining('CUSTOM_BACKOFF_UNKNOWN') });
    const worker = await bench.open({ queues: ['idle'] });
    worker.register({ type: 'own-backoff', handler: () => null, backoff: () => 10 });
    await worker.start();
    expect(await idOf(client, call)).toEqual(expect.any(String));
    await worker.close();
    await expect(idOf(client, call)).rejects.toMatchObject({ detail: expect.stringContaining('CUSTOM_BACKOFF_UNKNOWN') });
    expect(await idOf(client, `'own-backoff', '{}'`)).toEqual(expect.any(String));
  });
});

describe('an idempotency key', () => {
  it.each(['COMMIT', 'ROLLBACK'])('that an open transaction uses makes others wait, then %s decides', async (end) => {
    const [first, second, watcher] = [await bench.connect(), await bench.connect(), await bench.connect()];
    const submission = { type: 'once', payload: { n: 1 }, idempotencyKey: `race-${end}` };
    const millrace = await bench.open();
    await first.query('BEGIN');
    const { id } = (await submitBySql(first, submission)) as { id: string };
    const bySql = submitBySql(second, submission);
    // On a busy machine the key may be held for longer than the library waits. A caller then submits again.
    const byLibrary = insist(millrace, submission);
    const other = await millrace.submit({ ...submission, idempotencyKey: `other-${end}` });
    expect(other.status).toBe('ACCEPTED');
    await until('the second transaction waits for the first', async () => {
      const { rows } = await watcher.query(
        `SELECT count(*)::int4 AS n FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event = 'transactionid' AND query LIKE '%millrace.submit(%'`,
      );
      return rows[0].n === 1;
    });
    await first.query(end);
    const [result, jobId] = await Promise.all([bySql, byLibrary]);
    expect(result).toEqual({ id: jobId });
    expect(jobId === id).toBe(end === 'COMMIT');
  });

  it('is announced by the lock that the library takes, so statements for many callers leave it out', async () => {
    const client = await bench.connect();
    const millrace = await bench.open();
    const submission = {
      type: 'once',
      payload: {},
      idempotencyKey: 'announced',
      projectId: await newProject(bench.ledger.db, DEFAULT_ORG_ID),
    };
    const locks = async () => {
      const text = `SELECT classid, objid, objsubid, mode FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`;
      return (await client.query(text)).rows;
    };
    await client.query('BEGIN');
    await submitBySql(client, submission);
    const bySql = await locks();
    await client.query('ROLLBACK');
    await client.query('BEGIN');
    await millrace.submit(submission, { client });
    expect(bySql).toHaveLength(1);
    expect(await locks()).toEqual(bySql);
    await client.query('ROLLBACK');
  });

  it('belongs to its org, type and project', async () => {
    const client = await bench.connect();
    const org = await bench.ledger.newOrg();
    const submission = { type: 'once', payload: {}, idempotencyKey: 'scoped' };
    const projectId = await newProject(bench.ledger.db, DEFAULT_ORG_ID);
    const results = [
      await submitBySql(client, submission),
      await submitBySql(client, submission, org),
      await submitBySql(client, { ...submission, type: 'twice' }),
      await submitBySql(client, { ...submission, projectId }),
    ];
    expect(new Set(results.map((each) => ('id' in each ? each.id : each.message))).size).toBe(4);
    expect(await submitBySql(client, { ...submission, projectId })).toEqual(results[3]);
    const { rows } = await client.query('SELECT org_id FROM millrace.jobs WHERE id = $1', [(results[1] as { id: string }).id]);
    expect(rows[0].org_id).toBe(org);
  });

  it('can be used again when its window is over', async () => {
    const client = await bench.connect();
    const submission = { type: 'once', payload: {}, idempotencyKey: 'expired' };
    const first = await submitBySql(client, submission);
    await client.query(`UPDATE millrace.idempotency_keys SET expires_at = millrace.clock() WHERE key = 'expired'`);
    await client.query(`UPDATE millrace.jobs SET created_at = created_at - interval '1 day' WHERE idempotency_key = 'expired'`);
    const second = await submitBySql(client, { ...submission, payload: { changed: true } });
    expect(second).toEqual({ id: expect.any(String) });
    expect(second).not.toEqual(first);
  });
});

describe('the rows that jobs share', () => {
  it('a policy that was not used for hours is marked by one transaction, and no other waits for it', async () => {
    const [first, second] = [await bench.connect(), await bench.connect()];
    await second.query(`SET lock_timeout = '5s'`);
    const list = `'t', '{}', max_attempts => 42`;
    await idOf(first, list);
    const used = async () =>
      (
        await second.query(
          `SELECT now() - last_used_at < interval '1 minute' AS fresh FROM millrace.policies WHERE (body->>'maxAttempts')::int4 = 42`,
        )
      ).rows;
    await first.query(`UPDATE millrace.policies SET last_used_at = now() - interval '2 hours' WHERE (body->>'maxAttempts')::int4 = 42`);
    await first.query('BEGIN');
    await idOf(first, list);
    await idOf(second, list);
    expect(await used()).toEqual([{ fresh: false }]);
    await first.query('COMMIT');
    expect(await used()).toEqual([{ fresh: true }]);
  });

  it('a policy that a sweep may remove is written again before it is used', async () => {
    const client = await bench.connect();
    await idOf(client, `'t', '{}', max_attempts => 43`);
    await client.query(`UPDATE millrace.policies SET last_used_at = now() - interval '3 days' WHERE (body->>'maxAttempts')::int4 = 43`);
    await idOf(client, `'t', '{}', max_attempts => 43`);
    const { rows } = await client.query(
      `SELECT last_used_at > now() - interval '1 minute' AS fresh FROM millrace.policies WHERE (body->>'maxAttempts')::int4 = 43`,
    );
    expect(rows).toEqual([{ fresh: true }]);
  });

  it('the policy of a registered type is there before the first call, so a call need not write it', async () => {
    const worker = await bench.open({ queues: ['idle'] });
    worker.register({ type: 'registered', handler: () => null, timeout: '11m' });
    await worker.start();
    const client = await bench.connect();
    const policies = async () => (await counts(client)).policies;
    const before = await policies();
    await idOf(client, `'registered', '{}'`);
    expect(await policies()).toBe(before);
  });

  it('a limit in use is not locked, and new numbers replace the old ones', async () => {
    const [first, second] = [await bench.connect(), await bench.connect()];
    const call = (count: number) => `'t', '{}', limit_key => 'shared', limit_concurrency => ${count}`;
    await idOf(first, call(2));
    await first.query('BEGIN');
    await idOf(first, call(2));
    const { rows } = await second.query(`SELECT concurrency FROM millrace.limits WHERE key = 'shared' FOR UPDATE NOWAIT`);
    expect(rows).toEqual([{ concurrency: 2 }]);
    await first.query('COMMIT');
    await idOf(first, call(5));
    expect((await second.query(`SELECT concurrency FROM millrace.limits WHERE key = 'shared'`)).rows).toEqual([{ concurrency: 5 }]);
  });

  it('ids of jobs submitted one after the other are neighbours, and of version 4', async () => {
    const client = await bench.connect();
    const { rows } = await client.query(
      `SELECT left(millrace.submit('t', '{}')::text, 6) AS start, nextval('millrace.job_seq') >> 12 AS run FROM generate_series(1, 20)`,
    );
    const starts = Map.groupBy(rows, (row) => row.run);
    for (const ofRun of starts.values()) expect(new Set(ofRun.map(({ start }) => start)).size).toBeLessThanOrEqual(2);
    const id = await idOf(client, `'t', '{}'`);
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

describe('a trigger', () => {
  it('submits a job for each row, and the job runs with the row committed', async () => {
    const client = await bench.connect();
    await client.query(`CREATE TABLE users (id serial PRIMARY KEY, email text NOT NULL)`);
    await client.query(`CREATE FUNCTION welcome_user() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM millrace.submit('welcome', jsonb_build_object('user', NEW.id, 'email', NEW.email));
      RETURN NULL;
    END $$`);
    await client.query('CREATE TRIGGER welcome AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION welcome_user()');
    await client.query('BEGIN');
    await client.query(`INSERT INTO users (email) VALUES ('gone@example.com')`);
    await client.query('ROLLBACK');
    await client.query(`INSERT INTO users (email) SELECT 'u' || n || '@example.com' FROM generate_series(1, 3) n`);
    const welcomed: string[] = [];
    const reader = bench.ledger.db.maintenance;
    await bench.work({
      welcome: async (_, payload) => {
        const { rows } = await reader.query('SELECT email FROM users WHERE id = $1', [(payload as { user: number }).user]);
        welcomed.push(rows[0]?.email);
      },
    });
    await until('all users are welcomed', () => welcomed.length, 3);
    expect(welcomed.sort()).toEqual(['u1@example.com', 'u2@example.com', 'u3@example.com']);
    expect(await bench.violations()).toEqual([]);
  });
});
