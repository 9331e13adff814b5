import type { Socket } from 'node:net';
import type pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { SessionWatch } from '../../src/engine/upkeep/session-watch.ts';
import { listen, newListener } from '../../src/ledger/driver/notify.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

// On TCP the server ends such a session by itself. On a Unix socket it does not notice.
let watch: SessionWatch;
beforeAll(() => {
  watch = new SessionWatch({ database: ledger.db, events: new EventHub() });
  watch.start();
});
afterAll(() => watch.stop());

/** As the connection of a process that is stopped: it stays, and nobody reads from it. Answers who serves it. */
async function freeze(client: pg.ClientBase): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.pause();
  onTestFinished(() => void stream.destroy());
  return rows[0].pid;
}

const ENDED = 'it has ended';

/** What the server process waits for. */
async function waitOf(pid: number): Promise<string | null> {
  const text = 'SELECT wait_event FROM pg_stat_activity WHERE pid = $1 AND datname = current_database()';
  const { rows } = await ledger.db.maintenance.query(text, [pid]);
  return rows.length === 0 ? ENDED : rows[0].wait_event;
}

/** Nothing else ends these sessions, so one that has ended before anybody looked has waited for its client, too. */
async function untilCut(pid: number): Promise<void> {
  const isCaught = (wait: string | null) => wait === 'ClientWrite' || wait === ENDED;
  await until('the server process waits for its client', () => waitOf(pid), isCaught);
  await until('the server process has ended', () => waitOf(pid), ENDED);
}

/** More than fits between the two ends of a connection. */
const MEGABYTES = 64;

test('a process that is frozen while an answer is sent to it loses what it had locked', async () => {
  const job = await ledger.submitOne();
  const client = await ledger.db.workers.connect();
  onTestFinished(() => client.release(true));
  await client.query('BEGIN');
  await client.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [job.id]);
  const pid = await freeze(client);
  client.query(`SELECT repeat('x', 1000000) FROM generate_series(1, ${MEGABYTES})`).catch(() => {});
  await untilCut(pid);
  const freed = await ledger.db.api.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE NOWAIT', [job.id]);
  expect(freed.rowCount).toBe(1);
});

test('a process that is frozen while it listens is disconnected, so that its notifications need not be kept', async () => {
  const client = newListener(ledger.db.url);
  client.on('error', () => {});
  await client.connect();
  await listen(client);
  const pid = await freeze(client);
  const flood = `SELECT pg_notify('millrace', repeat('x', 7900) || n) FROM generate_series(1, ${MEGABYTES * 128}) n`;
  await ledger.db.maintenance.query(flood);
  await untilCut(pid);
});
