/** What both doors say of a write that another transaction was in the way of, or whose answer was lost. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { openRoad } from '../ledger/database-road.ts';
import { whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const LOCK = 4_711;

const DOORS = {
  '/v1': {
    request: { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', idempotency_key: 'once' },
    message: 'detail',
    refused: /nothing was changed/,
    unknown: /may have happened\. Retry later, with the same idempotency key/,
  },
  '/queue/v1': {
    request: { type: 'any', payload: {}, idempotency_key: 'once' },
    message: 'message',
    refused: /Another transaction holds a lock|Another transaction that is still open/,
    unknown: /may have happened\. Repeat the request\. Use the same idempotency_key/,
  },
} as const;

type Door = keyof typeof DOORS;

async function submit(door: Door, client: TestClient, url = server.url) {
  const answer = await fetch(`${url}${door}/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${client.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(DOORS[door].request),
  });
  const body = (await answer.json()) as Record<string, string>;
  return { status: answer.status, retryAfter: answer.headers.get('retry-after'), body };
}

/** From here on the database does this whenever it writes a job of the client. */
async function whenWriting(client: TestClient, action: string): Promise<() => Promise<unknown>> {
  const name = `fault_${randomUUID().replaceAll('-', '')}`;
  const db = server.ledger.db.maintenance;
  await db.query(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN ${action} RETURN NEW; END$$;
    CREATE TRIGGER ${name} BEFORE INSERT ON millrace.jobs FOR EACH ROW
      WHEN (NEW.org_id = '${client.clientId}') EXECUTE FUNCTION ${name}()`);
  return () => db.query(`DROP FUNCTION ${name} CASCADE`);
}

async function untilAsleep(): Promise<void> {
  const text = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
  await until('the write is under way', async () => (await server.ledger.db.maintenance.query(text)).rowCount, 1);
}

describe.each(Object.keys(DOORS) as Door[])('at %s', (door) => {
  it.each(['40001', '40P01', '55P03'])('a write that meets %s each time gets 503 with Retry-After', async (state) => {
    const client = await server.org();
    const heal = await whenWriting(client, `RAISE SQLSTATE '${state}';`);
    const { status, retryAfter, body } = await submit(door, client);
    expect([status, retryAfter]).toEqual([503, '1']);
    expect(body[DOORS[door].message]).toMatch(DOORS[door].refused);
    await heal();
    expect((await submit(door, client)).status).toBe(202);
  });

  it('a write whose connection was cut is said to have happened perhaps; with its key it is found', async () => {
    const client = await server.org();
    const { road, database } = await openRoad(server.ledger.db.url);
    const url = await server.listen({ engine: await server.newEngine(database) });
    // Asleep and not waiting for the lock: no lock_timeout ends it.
    const heal = await whenWriting(client, `WHILE NOT pg_try_advisory_xact_lock(${LOCK}) LOOP PERFORM pg_sleep(0.01); END LOOP;`);
    const holder = { url: server.ledger.db.url, text: 'SELECT pg_advisory_xact_lock($1)', values: [LOCK] };
    const asked = await whileHolding(holder, async () => {
      const answer = submit(door, client, url);
      await untilAsleep();
      await road.close();
      return answer;
    });
    expect([asked.status, asked.retryAfter]).toEqual([503, '1']);
    expect(asked.body[DOORS[door].message]).toMatch(DOORS[door].unknown);
    // The statement goes on over there: its end is what the caller could not be told.
    const written = 'SELECT FROM millrace.jobs WHERE org_id = $1';
    const jobs = async () => (await server.ledger.db.maintenance.query(written, [client.clientId])).rowCount;
    await until('the job is there', jobs, 1);
    await heal();
    const again = await submit(door, client);
    expect(again.status).toBeLessThan(300);
    const { rows } = await server.ledger.db.maintenance.query('SELECT id FROM millrace.jobs WHERE org_id = $1', [client.clientId]);
    expect(rows).toEqual([{ id: again.body.job_id }]);
  });

  it('a write that never left is not said to have happened', async () => {
    const client = await server.org();
    const { road, database } = await openRoad(server.ledger.db.url);
    const url = await server.listen({ engine: await server.newEngine(database) });
    expect((await submit(door, client, url)).status).toBe(202);
    await road.close();
    // Whatever comes of the first, no connection is left after it.
    await submit(door, client, url);
    const { status, body } = await submit(door, client, url);
    expect(status).toBe(503);
    expect(body[DOORS[door].message]).not.toContain('may have happened');
  });
});
