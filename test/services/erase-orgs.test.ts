import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SYSTEM_ORG_ID } from '../../src/core/delivery-policy.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { eraseStep } from '../../src/ledger/upkeep/erase-org.ts';
import { isKept, tablesToErase } from '../../src/ledger/upkeep/org-tables.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { eraseOrgs } from '../../src/services/maintenance/erase-orgs.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { askToDelete, endGrace, erase, erasureOf, isErased, rowsOf, step } from './erasure.ts';

const ERASER = fileURLToPath(new URL('./fixtures/eraser.ts', import.meta.url));

const bench = useBench();
const { ledger } = bench;
let engine: Engine;
beforeAll(async () => {
  engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
  await engine.open();
});
afterAll(() => engine.close(0));

const query = async (text: string, values: unknown[] = []) => (await ledger.db.api.query(text, values)).rows;
const orgExists = async (orgId: string) => (await query('SELECT FROM millrace.orgs WHERE id = $1', [orgId])).length === 1;

/** The row that says who asked, and the note about the deletion. */
const KEPT = ['audit_actions', 'org_erasures'];

/** Many ended jobs, without their history. */
const putJobs = (orgId: string, jobs: number) =>
  query(
    `INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, completed_at, order_key, policy_id, state, priority, requested_priority,
       max_attempts, event_count, record_ids, queue, job_type)
     SELECT nextval('millrace.job_seq'), $1, gen_random_uuid(), now(), now(), now(), now(), n, (SELECT min(id) FROM millrace.policies), 'cancelled', 2, 2, 3, 1,
       '{}', 'q:default', 'many' FROM generate_series(1, $2::int4) n`,
    [orgId, jobs],
  );

describe('the deletion of an org [N54]', () => {
  it('removes every row of the org, keeps its audit rows, and adds one that says who asked and how much there was', async () => {
    const [orgId, other] = [await ledger.newOrg(), await ledger.newOrg()];
    for (const org of [orgId, other]) {
      for (const state of ['pending', 'delayed', 'scheduled', 'retrying', 'completed', 'failed', 'dead_letter', 'cancelled'] as const)
        await ledger.putJob(state, { orgId: org });
      await ledger.project();
      await query(`INSERT INTO millrace.projects VALUES ($1, gen_random_uuid(), 'p', now())`, [org]);
      await query(
        `INSERT INTO millrace.alerts (kind, severity, org_id, subject, message, hour, first_at, last_at) VALUES ('slo', 'info', $1, 's', 'm', now(), now(), now())`,
        [org],
      );
      await query(`INSERT INTO millrace.audit_actions (at, org_id, event, actor) VALUES (now(), $1, 'key.created', 'user:operator')`, [
        org,
      ]);
    }
    const untouched = await rowsOf(ledger.db, other);
    const [{ slug }] = await query('SELECT slug FROM millrace.orgs WHERE id = $1', [orgId]);
    expect((await rowsOf(ledger.db, orgId)).size).toBeGreaterThan(8);
    await askToDelete(ledger.db, orgId);
    await erase(engine, orgId);
    expect(await rowsOf(ledger.db, orgId)).toEqual(
      new Map([
        ['audit_actions', 3],
        ['org_erasures', 1],
      ]),
    );
    expect(await orgExists(orgId)).toBe(false);
    expect(await rowsOf(ledger.db, other)).toEqual(untouched);
    const [row] = await query(`SELECT actor, details FROM ${ACTIONS} WHERE org_id = $1 AND event = 'org.erased'`, [orgId]);
    expect(row).toMatchObject({
      actor: 'user:operator',
      details: { name: slug, jobs: untouched.get('jobs'), objects: 0, rows: expect.any(Number) },
    });
    expect(row.details.rows).toBeGreaterThan(20);
    expect(await bench.violations()).toEqual([]);
  });

  it('covers every table with an org, also tables that a later version adds, except those that are kept by name', async () => {
    await query('CREATE TABLE millrace.later_parents (org_id uuid NOT NULL, id int PRIMARY KEY)');
    await query('CREATE TABLE millrace.later_children (org_id uuid NOT NULL, parent int NOT NULL REFERENCES millrace.later_parents (id))');
    const orgId = await ledger.newOrg();
    await query('INSERT INTO millrace.later_parents SELECT $1, n FROM generate_series(1, 10) n', [orgId]);
    await query('INSERT INTO millrace.later_children SELECT $1, n FROM generate_series(1, 10) n', [orgId]);
    await askToDelete(ledger.db, orgId);
    await erase(engine, orgId);
    expect([...(await rowsOf(ledger.db, orgId)).keys()]).toEqual(KEPT);
    await query('DROP TABLE millrace.later_children, millrace.later_parents');
    const all = await query(`SELECT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id'
      WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped`);
    const erased = new Set((await tablesToErase(ledger.db.api)).map(({ name }) => name));
    const left = all.map(({ name }) => name as string).filter((name) => !erased.has(name));
    expect(left.filter((name) => !isKept(name))).toEqual([]);
    // A table that is kept outlives the org, so it is named here.
    expect(left.filter((name) => !name.startsWith('audit_'))).toEqual(['org_erasures']);
  });

  it('refuses the writes of a handler that goes on, and lets one that stops end', async () => {
    const orgId = await ledger.newOrg();
    let release = (): void => {};
    const begun = new Set<string>();
    const heard: unknown[] = [];
    const lost: string[] = [];
    const millrace = await bench.work(
      {
        deaf: () => {
          begun.add('deaf');
          return new Promise<void>((resolve) => (release = resolve));
        },
        polite: ({ signal }) => {
          begun.add('polite');
          return new Promise<void>((_, reject) =>
            signal.addEventListener('abort', () => reject(heard.push(signal.reason) && signal.reason)),
          );
        },
      },
      { org: orgId, concurrency: 4 },
    );
    millrace.on('lost', ({ type }) => lost.push(type));
    await millrace.submit({ type: 'deaf', payload: {} });
    await millrace.submit({ type: 'polite', payload: {} });
    // A job that is running in the ledger only would be refused: its handler is not called once its org is being deleted.
    await until('both handlers run', () => begun.size, 2);
    await askToDelete(ledger.db, orgId);
    await until('the polite handler has stopped', async () => {
      await step(engine);
      return heard.length > 0 && (await query('SELECT FROM millrace.jobs WHERE org_id = $1', [orgId])).length === 1;
    });
    // The other one has time, so the org stays.
    await step(engine);
    expect(await isErased(ledger.db, orgId)).toBe(false);
    await endGrace(ledger.db, orgId);
    await erase(engine, orgId);
    release();
    await until('its completion was refused', () => lost, ['deaf']);
    expect([...(await rowsOf(ledger.db, orgId)).keys()].filter((name) => !isKept(name))).toEqual([]);
  });

  it('waits for a transaction that holds a job, and takes what it commits', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.putJob('completed', { orgId });
    await ledger.putJob('completed', { orgId });
    const user = await bench.connect();
    await user.query('BEGIN');
    await user.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [job.id]);
    await user.query(`INSERT INTO millrace.releases (org_id, seq) VALUES ($1, 1)`, [orgId]);
    await askToDelete(ledger.db, orgId);
    await step(engine);
    await endGrace(ledger.db, orgId);
    await until(
      'everything else is gone',
      async () => {
        await step(engine);
        return [...(await rowsOf(ledger.db, orgId)).keys()].filter((name) => !isKept(name)).join();
      },
      'jobs',
    );
    for (let n = 0; n < 5; n++) await step(engine);
    expect([await isErased(ledger.db, orgId), await orgExists(orgId)]).toEqual([false, true]);
    await user.query('COMMIT');
    await erase(engine, orgId);
    expect([...(await rowsOf(ledger.db, orgId)).keys()]).toEqual(KEPT);
  });

  it('does not end while a transaction from before it may still commit rows', async () => {
    const orgId = await ledger.newOrg();
    const user = await bench.connect();
    await user.query('BEGIN');
    await user.query(`INSERT INTO millrace.releases (org_id, seq) VALUES ($1, 1)`, [orgId]);
    await askToDelete(ledger.db, orgId);
    for (let n = 0; n < 10; n++) await step(engine);
    expect(await isErased(ledger.db, orgId)).toBe(false);
    await user.query('COMMIT');
    await erase(engine, orgId);
    expect([...(await rowsOf(ledger.db, orgId)).keys()]).toEqual(KEPT);
  });

  it('removes what programs write after the end, and forgets the org a week later', async () => {
    const orgId = await ledger.newOrg();
    await askToDelete(ledger.db, orgId);
    await erase(engine, orgId);
    for (const sweeps of [1, 2, 3]) {
      await putJobs(orgId, 3);
      await until(
        `sweep ${sweeps} is over`,
        async () => {
          await query('UPDATE millrace.org_erasures SET next_at = millrace.clock() WHERE org_id = $1 AND sweeps < $2', [orgId, sweeps]);
          await eraseOrgs({ engine, objects: [] });
          return ((await erasureOf(ledger.db, orgId))?.sweeps ?? 3) as number;
        },
        sweeps,
      );
      expect((await rowsOf(ledger.db, orgId)).has('jobs')).toBe(false);
    }
    expect(await erasureOf(ledger.db, orgId)).toBeUndefined();
  });

  it('is done once by two processes, with exact counts', async () => {
    const orgId = await ledger.newOrg();
    await putJobs(orgId, 12_345);
    await askToDelete(ledger.db, orgId);
    const database = openDatabase({ url: ledger.db.url });
    const second = createEngine({ database, profile: PROFILES.gopherqueue });
    await second.open();
    await Promise.all([erase(engine, orgId), erase(second, orgId)]);
    await second.close(0);
    await database.close();
    expect(await erasureOf(ledger.db, orgId)).toMatchObject({ jobs_removed: 12_345 });
    expect(await query(`SELECT details->>'jobs' AS jobs FROM ${ACTIONS} WHERE org_id = $1`, [orgId])).toEqual([{ jobs: '12345' }]);
  });

  it('continues after kill -9 between and within steps, and counts each job once', async () => {
    const orgId = await ledger.newOrg();
    await putJobs(orgId, 20_000);
    await askToDelete(ledger.db, orgId);
    const removedSoFar = async () => ((await erasureOf(ledger.db, orgId))?.jobs_removed ?? 0) as number;
    for (let kills = 0; kills < 4; kills++) {
      const before = await removedSoFar();
      const child = spawn(process.execPath, [ERASER, ledger.db.url], { stdio: ['ignore', 'ignore', 'inherit'] });
      const exited = once(child, 'exit');
      // On a busy machine it may have removed all of them before it is killed.
      await until('it has removed jobs', async () => (await removedSoFar()) > before || (await isErased(ledger.db, orgId)));
      child.kill('SIGKILL');
      await exited;
    }
    await erase(engine, orgId);
    expect(await erasureOf(ledger.db, orgId)).toMatchObject({ jobs_removed: 20_000 });
    expect((await query(`SELECT FROM ${ACTIONS} WHERE org_id = $1 AND event = 'org.erased'`, [orgId])).length).toBe(1);
  });

  it('removes a bounded number of rows with each step [AB-cat.24]', async () => {
    const orgId = await ledger.newOrg();
    await putJobs(orgId, 5_000);
    await askToDelete(ledger.db, orgId);
    const steps: number[] = [];
    await until('the org is erased', async () => {
      steps.push(await step(engine));
      return isErased(ledger.db, orgId);
    });
    expect(steps.filter((rows) => rows > 0)).toEqual(Array(5).fill(1_000));
  });

  it('never touches the org of the system, or an org that nobody asked to delete', async () => {
    await askToDelete(ledger.db, SYSTEM_ORG_ID);
    await step(engine);
    expect(await erasureOf(ledger.db, SYSTEM_ORG_ID)).toBeUndefined();
    await query('UPDATE millrace.orgs SET deleting_at = NULL WHERE id = $1', [SYSTEM_ORG_ID]);
    const orgId = await ledger.newOrg();
    await ledger.putJob('scheduled', { orgId });
    expect(await eraseStep(ledger.db.maintenance, orgId)).toEqual({ kind: 'busy', rows: 0 });
    expect((await rowsOf(ledger.db, orgId)).get('jobs')).toBe(1);
  });
});
