import { describe, expect, it, onTestFinished } from 'vitest';
import { Millrace } from '../../src/index.ts';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';
import { newListener } from '../../src/ledger/driver/notify.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { openPostgres } from '../../src/postgres/open.ts';
import { useLedger } from './fixture.ts';
import { makePatient, opened } from './patient.ts';
import { openPooler } from './pooler.ts';

const ledger = useLedger();

const KINDS = [
  ...(['api', 'searching', 'reading', 'workers', 'maintenance', 'projecting'] as const),
  ...(['submitting', 'claiming', 'finishing'] as const),
];

function open(url: string): Database {
  const database = openDatabase({ url });
  makePatient(database);
  onTestFinished(() => database.close());
  return database;
}

const show = async (db: Queryable, name: string): Promise<string> =>
  (await db.query({ text: `SELECT current_setting('${name}') AS value` })).rows[0].value;

describe('a session of ours', () => {
  it.each(KINDS)('has its time limits and planner settings: %s', async (kind) => {
    const limits = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'jit'];
    const database = openDatabase({ url: ledger.db.url });
    onTestFinished(() => database.close());
    const shown = await opened(() => Promise.all(limits.map((name) => show(database[kind], name))));
    const statements = { searching: '2s', claiming: '2s', maintenance: '30s', projecting: '30s' } as Record<string, string>;
    const locks = kind === 'claiming' || kind === 'finishing' ? '50ms' : '2s';
    expect(shown).toEqual([statements[kind] ?? '5s', locks, '3s', 'off']);
  });

  it.each(KINDS)('is refused where a pooler drops its settings: %s', async (kind) => {
    const database = open(await openPooler(ledger.db.url, { dropsSettings: true }));
    await expect((database[kind] as Queryable).query({ text: 'SELECT 1' })).rejects.toMatchObject({
      code: 'DATABASE_POOLED',
      message: expect.stringMatching(/jit, .*statement_timeout.* are not in force\. A connection pooler is between/),
    });
  });

  it.each(KINDS)('is refused where a pooler lends out server processes: %s', async (kind) => {
    const database = open(await openPooler(ledger.db.url, { makesUpIds: true }));
    const asked = (database[kind] as Queryable).query({ text: 'SELECT 1' });
    await expect(asked).rejects.toMatchObject({ code: 'DATABASE_POOLED' });
  });

  it('that listens is refused through a pooler, where it would hear nothing', async () => {
    const client = newListener(await openPooler(ledger.db.url, { makesUpIds: true }));
    client.on('error', () => {});
    await expect(client.connect()).rejects.toMatchObject({ code: 'DATABASE_POOLED' });
    await client.end();
    const direct = newListener(ledger.db.url);
    await direct.connect();
    await direct.end();
  });
});

describe('an address that leads to a pooler', () => {
  it('is refused when it is opened, with a sentence that says what to do', async () => {
    const url = await openPooler(ledger.db.url, { makesUpIds: true });
    const refusal = {
      code: 'DATABASE_POOLED',
      message: expect.stringMatching(/Use the address of PostgreSQL itself\.$/),
    };
    await expect(openPostgres({ databaseUrl: url })).rejects.toMatchObject(refusal);
    await expect(Millrace.open({ database: url })).rejects.toMatchObject(refusal);
  });

  it('is accepted where bytes pass unchanged, as through a balancer of connections', async () => {
    const url = await openPooler(ledger.db.url, {});
    const millrace = await Millrace.open({ database: url });
    onTestFinished(() => millrace.close({ grace: 0 }));
    expect((await millrace.submit({ type: 'any', payload: {} })).status).toBe('ACCEPTED');
  });
});
