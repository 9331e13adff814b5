/** What the execution API promises when the database fails under it. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { openRoad } from '../ledger/database-road.ts';
import { LOCK_JOBS, whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';
import { type Answer, type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const EXECUTE = { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', idempotency_key: 'once' };

/** From here on the database does this whenever it writes a row of the client. */
async function whenWriting(client: TestClient, table: string, action: string): Promise<() => Promise<unknown>> {
  const name = `fault_${randomUUID().replaceAll('-', '')}`;
  const db = server.ledger.db.maintenance;
  await db.query(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN ${action} RETURN NEW; END$$;
    CREATE TRIGGER ${name} BEFORE INSERT ON millrace.${table} FOR EACH ROW
      WHEN (NEW.org_id = '${client.clientId}') EXECUTE FUNCTION ${name}()`);
  return () => db.query(`DROP FUNCTION ${name} CASCADE`);
}

const REFUSE = `RAISE EXCEPTION 'disk of sand';`;
const TABLES = ['jobs', 'ready', 'records', 'idempotency_keys', 'tagged_jobs'];

/** How many rows there are of the client, wherever a job leaves some. */
async function rowsOf({ clientId }: TestClient): Promise<Record<string, number>> {
  const counts = TABLES.map(async (table) => {
    const text = `SELECT count(*)::int4 AS count FROM millrace.${table} WHERE org_id = $1`;
    return [table, (await server.ledger.db.maintenance.query(text, [clientId])).rows[0].count] as const;
  });
  return Object.fromEntries(await Promise.all(counts));
}

const NOTHING = Object.fromEntries(TABLES.map((table) => [table, 0]));

function expectFailure({ status, body, headers }: Answer, code: string): void {
  expect([status, body.code]).toEqual([503, code]);
  expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect(Object.keys(body)).toEqual(['type', 'title', 'status', 'detail', 'instance', 'code']);
  expect(JSON.stringify(body)).not.toMatch(/job_id|disk of sand|millrace\./);
}

/** The same client at a server whose way to the database can be closed. */
async function onARoad(client: TestClient) {
  const { road, database } = await openRoad(server.ledger.db.url);
  const engine = await server.newEngine(database);
  return { road, afar: client.at(await server.listen({ engine })) };
}

describe('a job that cannot be stored', () => {
  it.each(['jobs', 'ready', 'idempotency_keys'])(
    'for an error in %s gets 503 and no id, leaves nothing behind, and never runs [FR-14.20] [FR-14.21]',
    async (table) => {
      const client = await server.client();
      const heal = await whenWriting(client, table, REFUSE);
      expectFailure(await client.post('/jobs', EXECUTE), 'RFA_STORAGE_DB_ERROR');
      expect(await rowsOf(client)).toEqual(NOTHING);
      expect((await client.get('/jobs')).body.jobs).toEqual([]);
      await heal();
      const { status, body } = await client.post('/jobs', EXECUTE);
      expect(status).toBe(202);
      await client.reached(body.job_id, 'SUCCEEDED');
      expect((await client.get('/jobs')).body.jobs).toHaveLength(1);
    },
  );

  it('because its events cannot be is not stored either, and the log says that a caller must repeat [FR-14.24] [FR-14.25]', async () => {
    const client = await server.client();
    const heal = await whenWriting(client, 'records', REFUSE);
    const answer = await client.post('/jobs', EXECUTE);
    expectFailure(answer, 'RFA_STORAGE_DB_ERROR');
    expect(await rowsOf(client)).toEqual(NOTHING);
    const line = () => server.logs.find(({ request_id }) => request_id === answer.body.instance);
    await until('the line has been written, which follows the answer', () => line() !== undefined);
    expect(line()).toMatchObject({ level: 'error', action: 'submit', client_id: client.clientId, recovery_needed: true });
    expect(await (await fetch(`${server.url}/metrics`)).text()).toMatch(/^database_errors_total\{sqlstate="P0001"\} [1-9]/m);
    await heal();
    expect((await client.post('/jobs', EXECUTE)).status).toBe(202);
  });

  it('under an id that another job has gets 503, and the other job stays as it is [FR-14.26]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    const before = await client.reached(jobId, 'SUCCEEDED');
    await until('the rollup writer indexed the tags of the job', async () => (await rowsOf(client)).tagged_jobs !== 0);
    const rows = await rowsOf(client);
    const heal = await whenWriting(client, 'jobs', `NEW.id := '${jobId}';`);
    expectFailure(await client.post('/jobs', EXECUTE), 'RFA_STORAGE_DB_ERROR');
    await heal();
    expect(await rowsOf(client)).toEqual(rows);
    expect((await client.get(`/jobs/${jobId}`)).body).toEqual(before);
  });

  it('and those of others that arrive at the same moment are there if they were accepted, and not if not [FR-14.21]', async () => {
    const [client, other] = [await server.client(), await server.client()];
    await whenWriting(client, 'jobs', REFUSE);
    const answers = await Promise.all([client, other, client, other].map((each) => each.post('/jobs', { ...EXECUTE })));
    for (const [index, { status }] of answers.entries()) if (index % 2 === 0) expect(status).toBe(503);
    // Written in one statement with the other's, theirs may be refused with it: then nothing of it is there.
    const accepted = answers.filter(({ status }) => status === 202).map(({ body }) => body.job_id);
    const { jobs } = (await other.get('/jobs')).body;
    expect(new Set(jobs.map(({ job_id }: { job_id: string }) => job_id))).toEqual(new Set(accepted));
    expect(await rowsOf(client)).toEqual(NOTHING);
  });
});

describe('a database that takes too long', () => {
  it('is given up on: 503, never a success, and no part of the write [FR-14.67] [FR-14.68]', async () => {
    const client = await server.client();
    const heal = await whenWriting(client, 'jobs', 'PERFORM pg_sleep(3600);');
    let isAnswered = false;
    const asked = client.post('/jobs', EXECUTE).finally(() => {
      isAnswered = true;
    });
    // What a statement timeout does, without waiting for it. On a busy machine that one may come first.
    const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    await until('the write is cancelled', async () => isAnswered || (await server.ledger.db.maintenance.query(cancel)).rowCount === 1);
    expectFailure(await asked, 'RFA_STORAGE_DB_ERROR');
    expect(await rowsOf(client)).toEqual(NOTHING);
    await heal();
  });

  it('does not hold up a request beyond its own time: 504, and no success [FR-14.69] [FR-14.68]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    const hurried = client.at(await server.listen({ requestTimeoutMs: 100 }));
    await whileHolding({ url: server.ledger.db.url, text: LOCK_JOBS }, async () => {
      const { status, body } = await hurried.get(`/jobs/${jobId}`);
      expect([status, body.code]).toEqual([504, 'RFA_EXEC_TIMEOUT']);
    });
    await until('the read takes less than its time again', async () => (await hurried.get(`/jobs/${jobId}`)).status, 200);
  });
});

/** The first answer that does not fail. */
async function served<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  const answers: T[] = [];
  const status = async () => {
    answers.push(await ask());
    return answers.at(-1)?.status;
  };
  await until('the database answers', status, (seen) => seen !== 503);
  return answers.at(-1) as T;
}

describe('a database that is away', () => {
  it('makes reads of jobs, reports and lists fail, with nothing of the data in the answer [FR-14.22]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    await client.reached(jobId, 'SUCCEEDED');
    const { road, afar } = await onARoad(client);
    expect((await served(() => afar.get(`/jobs/${jobId}`))).status).toBe(200);
    await road.close();
    for (const path of [`/jobs/${jobId}`, `/jobs/${jobId}/report`, '/jobs', '/reports', '/clients/me']) {
      expectFailure(await afar.get(path), 'RFA_STORAGE_UNAVAILABLE');
    }
  });

  it('is never answered from memory: the first read that succeeds shows the current state [FR-14.23]', async () => {
    const client = await server.client();
    const jobId = await client.submit({
      type: 'DEFERRED',
      execution_at: new Date(Date.now() + 3_600_000).toISOString(),
    });
    const { road, afar } = await onARoad(client);
    expect((await served(() => afar.get(`/jobs/${jobId}`))).body.state).toBe('CREATED');
    await road.close();
    await client.post(`/jobs/${jobId}/cancel`);
    expectFailure(await afar.get(`/jobs/${jobId}`), 'RFA_STORAGE_UNAVAILABLE');
    await road.open();
    const answer = await served(() => afar.get(`/jobs/${jobId}`));
    expect(answer.body).toMatchObject({ state: 'CANCELED', outcome: 'CANCELED' });
  });

  it('refuses submissions; the same request with its key makes one job once it is back [FR-14.27] [FR-14.21]', async () => {
    const client = await server.client();
    const { road, afar } = await onARoad(client);
    await road.close();
    expectFailure(await afar.post('/jobs', EXECUTE), 'RFA_STORAGE_UNAVAILABLE');
    expect(await rowsOf(client)).toEqual(NOTHING);
    await road.open();
    const answer = await served(() => afar.post('/jobs', EXECUTE));
    expect(answer.status).toBe(202);
    expect((await client.get('/jobs')).body.jobs).toMatchObject([{ job_id: answer.body.job_id }]);
  });
});

describe('connections', () => {
  it('that are all in use make a request wait a while and then fail with 503 [FR-14.27]', async () => {
    const client = await server.client();
    const database = openDatabase({ url: server.ledger.db.url, apiPool: 1 });
    onTestFinished(() => database.close());
    const crowded = client.at(await server.listen({ engine: await server.newEngine(database) }));
    expect((await served(() => crowded.get('/jobs'))).status).toBe(200);
    const taken = await database.searching.connect();
    expectFailure(await crowded.get('/jobs'), 'RFA_STORAGE_UNAVAILABLE');
    taken.release();
    expect((await served(() => crowded.get('/jobs'))).status).toBe(200);
  });

  it('that lead nowhere fail with 503 [FR-14.27]', async () => {
    const client = await server.client();
    const { road, afar } = await onARoad(client);
    road.block();
    expectFailure(await afar.get('/jobs'), 'RFA_STORAGE_UNAVAILABLE');
  });
});
