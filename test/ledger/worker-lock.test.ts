import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { declareDead, holdWorkerLock, type WatchedWorker, watchWorkers } from '../../src/ledger/attempts/watch-workers.ts';
import { WorkerSession } from '../../src/ledger/attempts/worker-session.ts';
import { stopWorker } from '../../src/ledger/attempts/workers.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';
import { opened, patientUrl } from './patient.ts';

const ledger = useLedger();
const DAY = 86_400_000;

async function look(id: number): Promise<WatchedWorker> {
  const worker = (await watchWorkers(ledger.db.maintenance)).find((each) => each.id === id);
  if (worker === undefined) throw new Error(`worker ${id} is not watched`);
  return worker;
}

/** A worker with a session that holds its lock. */
async function held() {
  const id = await ledger.registerWorker();
  const session = new WorkerSession({ url: patientUrl(ledger.db.url), workerId: id });
  await opened(() => session.open());
  onTestFinished(() => session.close());
  return { id, session };
}

/** Ends the session as the end of its process would. */
async function cut(session: WorkerSession): Promise<void> {
  const { rows } = await session.query({ text: 'SELECT pg_backend_pid() AS pid' });
  await ledger.db.api.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
}

const declare = async ({ id, beat }: WatchedWorker) => declareDead(ledger.db.maintenance, { id, beat });
const isStopped = async (id: number) => !(await watchWorkers(ledger.db.maintenance)).some((each) => each.id === id);

test('the lock of a worker falls free when its session ends, and the worker can then be declared dead, once', async () => {
  const { id, session } = await held();
  expect(await look(id)).toMatchObject({ isLockFree: false });
  expect(await declare(await look(id))).toBe(false);
  await cut(session);
  await until('the lock is free', async () => (await look(id)).isLockFree);
  const seen = await look(id);
  expect(await declare(seen)).toBe(true);
  expect(await isStopped(id)).toBe(true);
  expect(await declare(seen)).toBe(false);
});

test('a worker that reconnects holds a new lock before its next statement', async () => {
  const { id, session } = await held();
  await cut(session);
  await until('the lock is free', async () => (await look(id)).isLockFree);
  const seen = await look(id);
  await until('the session works again', () =>
    session.query({ text: 'SELECT 1' }).then(
      () => true,
      () => false,
    ),
  );
  expect(await look(id)).toMatchObject({ isLockFree: false });
  expect(await declare(seen)).toBe(false);
});

test('a worker that beat after the look, or whose beat is under way, is left alone', async () => {
  const { id, session } = await held();
  await cut(session);
  await until('the lock is free', async () => (await look(id)).isLockFree);
  const seen = await look(id);
  const client = await ledger.db.workers.connect();
  await client.query('BEGIN');
  await client.query('UPDATE millrace.workers SET beat_at = millrace.clock() WHERE id = $1', [id]);
  expect(await declare(seen)).toBe(false);
  await client.query('COMMIT');
  client.release();
  expect(await declare(seen)).toBe(false);
  expect(await isStopped(id)).toBe(false);
});

test('a worker that holds no lock is not missed for it, and a session behind a pooler takes none', async () => {
  const id = await ledger.registerWorker();
  expect(await look(id)).toMatchObject({ isLockFree: false });
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  // A pooler makes up the number that it tells its clients.
  expect(await holdWorkerLock(client, { workerId: id, processId: 1 })).toBe(false);
  expect(await look(id)).toMatchObject({ isLockFree: false });
  expect(await declare(await look(id))).toBe(false);
});

test('a worker without a lock is declared dead after a day of silence', async () => {
  const id = await ledger.registerWorker();
  await ledger.moveClock(DAY - 60_000);
  expect(await declare(await look(id))).toBe(false);
  await ledger.moveClock(61_000);
  expect(await look(id)).toMatchObject({ isLongGone: true });
  expect(await declare(await look(id))).toBe(true);
});

test('a worker that stopped is not watched', async () => {
  const { id } = await held();
  await stopWorker(ledger.db.workers, id);
  expect(await isStopped(id)).toBe(true);
});
