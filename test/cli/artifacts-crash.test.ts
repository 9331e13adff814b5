import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { sweepArtifacts } from '../../src/engine/artifacts/artifact-sweeper.ts';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { start } from './program.ts';

const ledger = useLedger();
const DAY_MS = 86_400_000;
/** In this database alone: other tests share the server. */
const HELD_UP = `datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%artifacts%'`;

test('a process that is killed between the object and its row leaves nothing behind a day later', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'artifacts-crash-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const orgId = await ledger.newOrg();
  const objects = join(folder, 'fetchbox', 'artifacts', orgId);
  const stored = () => (existsSync(objects) ? readdirSync(objects) : []);
  const holder = new pg.Client({ connectionString: ledger.db.url });
  await holder.connect();
  onTestFinished(() => holder.end());
  // Lets the row of the upload be written, and holds up the statement that shows the artifact.
  await holder.query(
    `CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       PERFORM set_config('lock_timeout', '0', true), pg_advisory_lock(4711); RETURN NEW; END $$`,
  );
  await holder.query('CREATE TRIGGER hold_up BEFORE UPDATE ON millrace.artifacts FOR EACH ROW EXECUTE FUNCTION hold_up()');
  await holder.query('SELECT pg_advisory_lock(4711)');
  const env = { MILLRACE_OBJECTS_FOLDER: folder };
  const uploading = start(['artifacts', 'put', '-', '--org', orgId], { database: ledger.db.url, env, stdin: 'whole' });
  await until('the object is complete', () => stored().length === 2);
  await until('the row is about to be shown', async () => {
    const { rows } = await ledger.db.api.query(`SELECT 1 FROM pg_stat_activity WHERE ${HELD_UP}`);
    return rows.length > 0;
  });
  uploading.kill('SIGKILL');
  await uploading.ended;
  await ledger.db.api.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${HELD_UP}`);
  await holder.query('DROP TRIGGER hold_up ON millrace.artifacts');
  const states = async () => (await ledger.db.api.query('SELECT state FROM millrace.artifacts WHERE org_id = $1', [orgId])).rows;
  expect(await states()).toEqual([{ state: 'uploading' }]);
  const storage = { store: new FolderStore(folder) };
  await sweepArtifacts(ledger.db, storage);
  expect(stored()).toHaveLength(2);
  await ledger.moveClock(DAY_MS + 60_000);
  await sweepArtifacts(ledger.db, storage);
  expect(stored()).toEqual([]);
  expect(await states()).toEqual([]);
});
