import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { EventHub } from '../../src/engine/events.ts';
import { type Hint, Notifier } from '../../src/engine/notifier.ts';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { openRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();

/** Somebody who listens, from when this is answered on. */
async function listening(database: Database, probeMs?: number) {
  const heard: Hint[] = [];
  const events = new EventHub();
  const notifier = new Notifier({ database, events, onHint: (hint) => heard.push(hint), probeMs });
  onTestFinished(() => notifier.stop());
  notifier.start();
  await until(
    'a hint has arrived',
    () => heard.length,
    (count) => count > 0,
  );
  heard.length = 0;
  return { heard, events };
}

it('listens again when its connection died without a word', async () => {
  const { road, database } = await openRoad(ledger.db.url);
  const { heard, events } = await listening(database, 10);
  const missed = new Promise((resolve) => events.on('error', resolve));
  road.block();
  await missed;
  road.unblock();
  // A new connection may have missed anything, so it tells all of it.
  await until(
    'the hint about the catalogue has arrived',
    () => heard,
    (seen) => seen.includes('catalogue'),
  );
  heard.length = 0;
  const teller = new Notifier({ database: ledger.db, events: new EventHub(), onHint: () => {} });
  teller.open();
  onTestFinished(() => teller.close());
  teller.hint('cancel');
  await until(
    'the hint about a cancellation has arrived',
    () => heard,
    (seen) => seen.includes('cancel'),
  );
});

it('fails no submission when hints cannot be sent, and sends them once they can', async () => {
  const { heard } = await listening(ledger.db);
  const sql = (text: string) => ledger.db.maintenance.query(text);
  await sql('CREATE SCHEMA full_queue');
  await sql(`CREATE FUNCTION full_queue.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
    $$BEGIN RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = 'program_limit_exceeded'; END$$`);
  const { rows } = await sql('SELECT current_database() AS name');
  await sql(`ALTER DATABASE ${rows[0].name} SET search_path = full_queue, pg_catalog`);
  const database = openDatabase({ url: ledger.db.url });
  const engine = createEngine({ database, profile: PROFILES.gopherqueue });
  onTestFinished(async () => {
    await engine.close(0);
    await database.close();
  });
  const failed: string[] = [];
  engine.events.on('error', ({ where }) => failed.push(where));
  await engine.open();
  const submission = { type: 'anything', payload: {} };
  expect(await submitJob(engine, { orgId: await ledger.newOrg(), submission, actor: null })).toMatchObject({
    status: 'ACCEPTED',
  });
  await until(
    'the notifier has reported its failure',
    () => failed,
    (seen) => seen.includes('notifier'),
  );
  expect(heard).toEqual([]);
  await sql('DROP SCHEMA full_queue CASCADE');
  await until(
    'the hint about a ready job has arrived',
    () => heard,
    (seen) => seen.includes('ready'),
  );
});

it('sends the first hint right after its statement, and combines the hints that follow', async () => {
  const { heard } = await listening(ledger.db);
  const sent: unknown[] = [];
  const behind: Queryable = {
    query: (config) => {
      sent.push(config.values);
      return ledger.db.api.query(config);
    },
  };
  const notifier = new Notifier({ database: ledger.db, events: new EventHub(), onHint: () => {} });
  notifier.open();
  onTestFinished(() => notifier.close());
  notifier.hint('ready', behind);
  expect(sent).toHaveLength(1);
  for (let i = 0; i < 100; i++) notifier.hint('cancel', behind);
  expect(sent).toHaveLength(1);
  await until('both hints have arrived', () => heard.includes('ready') && heard.includes('cancel'));
  expect(heard.filter((hint) => hint === 'cancel')).toHaveLength(1);
});

it('notifies other processes of a job in a transaction of the caller when that has ended, and not before', async () => {
  const { heard } = await listening(ledger.db);
  const orgId = await ledger.newOrg();
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
  await engine.open();
  onTestFinished(() => engine.close(0));
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  const later = { type: 'later', payload: {}, delay: '1h' } as const;
  for (const submission of [{ type: 'now', payload: {} }, later]) await submitJob(engine, { orgId, submission, actor: null, client });
  engine.notifier.hint('cancel');
  await until('the hint about a cancel has arrived', () => heard.includes('cancel'));
  expect(heard).toEqual(['cancel']);
  await client.query('COMMIT');
  await until('both hints have arrived', () => heard.includes('ready') && heard.includes('timers'));
});
