import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { buildServer } from '../../src/http/server.ts';
import type { Identity } from '../../src/http/shared/identity.ts';
import { BoundedPool, type PoolBounds } from '../../src/ledger/driver/bounded-pool.ts';
import { inTransaction, openDatabase } from '../../src/ledger/driver/database.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { useLedger } from '../ledger/fixture.ts';
import { LOCK_JOBS, whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';
import { waitLonger } from './patient-pools.ts';
import { queueDoor } from './queue-door.ts';

const ledger = useLedger();
const POOL = 2;
const MOST_WAITING = 2 * POOL;
/** Nobody is refused because the machine is busy. */
const PATIENT = { patienceMs: 60_000, longestWaitMs: 60_000 };
const UNLIMITED = { allowed: true, limit: 1, remaining: 1, resetMs: 1 };

/** A server that has few connections for reads of one org, and asks the database for nothing but what it is asked for. */
async function serve(bounds: Partial<PoolBounds> = {}) {
  const apiBounds = { maxWaiting: MOST_WAITING, ...PATIENT, ...bounds };
  const database = openDatabase({ url: ledger.db.url, apiPool: 2 * POOL, apiBounds });
  waitLonger(database);
  const engine = createEngine({ database, profile: PROFILES.gopherqueue });
  await engine.open();
  const orgId = await ledger.newOrg();
  const identity: Identity = { orgId, keyId: 'k', projectId: null, scopes: new Set(API_KEY_SCOPES), isSelfRegistered: false };
  const http = await buildServer({
    ...{ engine, doors: [queueDoor], version: '0.0.0-test' },
    authenticator: { authenticate: async () => identity },
    limiter: { take: () => UNLIMITED },
  });
  await http.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(async () => {
    await http.close();
    await engine.close(0);
    await database.close();
  });
  const url = `http://127.0.0.1:${(http.server.address() as AddressInfo).port}/queue/v1`;
  return { pool: database.reading as BoundedPool, shared: database.api, url };
}

/** Nobody reads a job while the work is under way. */
const whileJobsAreLocked = (work: () => Promise<void>): Promise<void> => whileHolding({ url: ledger.db.url, text: LOCK_JOBS }, work);

async function submit(url: string): Promise<string> {
  const accepted = await fetch(`${url}/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'mail', payload: {} }),
  });
  return ((await accepted.json()) as { job_id: string }).job_id;
}

/** A read that nobody shares. */
const explain = (url: string, jobId: string): Promise<Response> => fetch(`${url}/jobs/${jobId}/explain`);

it('callers up to twice the number of connections wait for one; later callers wait before them, and all get an answer', async () => {
  const { pool, url } = await serve();
  const jobId = await submit(url);
  const waiting: Promise<Response>[] = [];
  await whileJobsAreLocked(async () => {
    for (let n = 0; n < POOL + MOST_WAITING + 3; n++) waiting.push(explain(url, jobId));
    await until('three callers wait', () => pool.standingCount, 3);
    expect(pool.waitingCount).toBe(MOST_WAITING);
  });
  expect(new Set((await Promise.all(waiting)).map(({ status }) => status))).toEqual(new Set([200]));
  expect(pool.standingCount).toBe(0);
});

it('a caller whose line does not move, or is full, gets 503 with Retry-After', async () => {
  const { pool, url } = await serve({ patienceMs: 50, maxStanding: 1 });
  const jobId = await submit(url);
  const waiting: Promise<Response>[] = [];
  await whileJobsAreLocked(async () => {
    for (let n = 0; n < POOL + MOST_WAITING; n++) waiting.push(explain(url, jobId));
    await until('as many callers wait as may', () => pool.waitingCount, MOST_WAITING);
    for (const refused of await Promise.all([explain(url, jobId), explain(url, jobId)])) {
      expect(refused.status).toBe(503);
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(await refused.json()).toMatchObject({ code: 'UNAVAILABLE' });
    }
    expect([pool.waitingCount, pool.standingCount]).toEqual([MOST_WAITING, 0]);
  });
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(Array(POOL + MOST_WAITING).fill(200));
  expect((await explain(url, jobId)).status).toBe(200);
});

it('who reads or submits single jobs shares connections, so that many more may do so', async () => {
  const { shared: pool, url } = await serve();
  const job_id = await submit(url);
  const reads: Promise<Response>[] = [];
  await whileJobsAreLocked(async () => {
    for (let n = 0; n < 100; n++) reads.push(fetch(`${url}/jobs/${job_id}`));
    await until('the connection is in use', () => pool.idleCount, 0);
    expect(pool.waitingCount).toBe(0);
  });
  const answers = await Promise.all(reads);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await (answers[0] as Response).json()).toMatchObject({ job_id, type: 'mail' });
});

it('a transaction is refused like a statement, and a connection that comes too late is given back', async () => {
  const pool = new BoundedPool({ connectionString: ledger.db.url, max: 1 }, { maxWaiting: 1, patienceMs: 20 });
  onTestFinished(() => pool.end());
  const client = await pool.connect();
  const first = pool.query('SELECT 1 AS one');
  await expect(inTransaction(pool, async () => 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  await expect(pool.query('SELECT 1')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  client.release();
  expect((await first).rows).toEqual([{ one: 1 }]);
  expect(await inTransaction(pool, async () => 1)).toBe(1);
  await until('the connection is idle again', () => pool.idleCount, 1);
});

it('a line that moves is not waited in for ever', async () => {
  const bounds = { maxWaiting: 0, patienceMs: 20, longestWaitMs: 40 };
  const pool = new BoundedPool({ connectionString: ledger.db.url, max: 1 }, bounds);
  onTestFinished(() => pool.end());
  let isServed = true;
  const crowd = Array.from({ length: 40 }, () =>
    pool.query('SELECT pg_sleep(0.01)').catch((error) => {
      expect(error).toMatchObject({ code: 'UNAVAILABLE' });
      isServed = false;
    }),
  );
  await Promise.all(crowd);
  expect(isServed).toBe(false);
});
