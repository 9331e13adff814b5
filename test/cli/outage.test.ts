import { describe, expect, it, onTestFinished } from 'vitest';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { logged } from './observed-process.ts';
import { ask, folderWith, type Running, start } from './program.ts';

const ledger = useLedger();
const ECHO = `export const handlers = { echo: (_context, payload) => payload };`;

async function startEcho(database: string): Promise<Running> {
  const worker = start(['work', 'echo.js', '--verbose'], { database, cwd: folderWith({ 'echo.js': ECHO }) });
  await worker.said(/Serving echo/);
  return worker;
}

async function runsOne(worker: Running): Promise<void> {
  const { jobId } = await ask<{ jobId: string }>(['jobs', 'submit', 'echo'], { database: ledger.db.url });
  await worker.said(new RegExp(`completed echo ${jobId}`));
}

const endConnections = () =>
  ledger.db.api.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE 'millrace%' AND pid <> pg_backend_pid()`,
  );

async function stop(worker: Running): Promise<void> {
  worker.kill('SIGTERM');
  expect(await worker.ended).toMatchObject({ code: 0, stderr: '' });
}

describe('a worker whose database goes away', () => {
  it('goes on when every connection it has is ended', async () => {
    const worker = await startEcho(ledger.db.url);
    await runsOne(worker);
    const { rowCount } = await endConnections();
    expect(rowCount).toBeGreaterThan(1);
    await runsOne(worker);
    await stop(worker);
  });

  it('waits for it, logs once that it is lost and once that it is back, and goes on [AB-obs.01]', async () => {
    const road = new DatabaseRoad(ledger.db.url);
    await road.open();
    onTestFinished(() => road.close());
    const worker = await startEcho(road.url);
    await runsOne(worker);
    await road.close();
    const lost = await logged(worker, { message: 'database.lost' });
    expect(lost).toMatchObject({ level: 'error', reason: 'The database is unreachable. Retrying until it is back.' });
    expect(lost).toMatchObject({ time: expect.any(String), error_message: expect.any(String) });
    const { jobId } = await ask<{ jobId: string }>(['jobs', 'submit', 'echo'], { database: ledger.db.url });
    await road.open();
    expect(await logged(worker, { message: 'database.back' })).toMatchObject({ level: 'warn', duration_ms: expect.any(Number) });
    await worker.said(new RegExp(`completed echo ${jobId}`));
    // A busy machine may lose the database again. However often it does, no loss has a second line before its end.
    const lines = worker.logs.map(({ message }) => message).filter((message) => String(message).startsWith('database.'));
    expect(lines).toEqual(lines.map((_, at) => (at % 2 === 0 ? 'database.lost' : 'database.back')));
    expect(worker.stdout).not.toContain('database is');
    await stop(worker);
  });
});
