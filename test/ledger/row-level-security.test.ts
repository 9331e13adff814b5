import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { migrate } from '../../src/ledger/driver/migrate.ts';
import { prepareReader } from '../../src/ledger/driver/reader-role.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { startExternal } from '../postgres/external-server.ts';
import { makeScratch } from '../postgres/scratch.ts';
import { type TestJob, useLedger } from './fixture.ts';
import { makePatient } from './patient.ts';

const ledger = useLedger();

/** Tables with an org that the reader need not be kept out of, each with its reason. */
const EXEMPT: Readonly<Record<string, string>> = {};

/** What `reading` says of tables that have an org. */
const tablesWithOrg = async (): Promise<{ name: string; isProtected: boolean }[]> =>
  (
    await ledger.db.maintenance.query(
      `SELECT c.relname AS name, c.relrowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid) AS "isProtected"
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
       WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`,
    )
  ).rows;

describe('the role millrace_reader', () => {
  it('has a policy on every table with an org [AB-sec.02]', async () => {
    const open = (await tablesWithOrg()).filter(({ name, isProtected }) => !isProtected && !Object.hasOwn(EXEMPT, name));
    const what = `These tables have an org and no policy. Call millrace.protect_by_org('name') in the migration that creates them`;
    expect(
      open.map(({ name }) => name),
      what,
    ).toEqual([]);
    await ledger.db.maintenance.query('CREATE TABLE millrace.forgotten (org_id uuid NOT NULL)');
    onTestFinished(async () => void (await ledger.db.maintenance.query('DROP TABLE millrace.forgotten')));
    expect(await tablesWithOrg()).toContainEqual({ name: 'forgotten', isProtected: false });
  });

  it('sees through every view what its own org has, and nothing without an org', async () => {
    const { rows: views } = await ledger.db.maintenance.query(
      `SELECT relname AS name, coalesce('security_invoker=true' = ANY (reloptions), false) AS "asInvoker" FROM pg_class
       WHERE relnamespace = 'millrace'::regnamespace AND relkind = 'v'`,
    );
    expect(views.length).toBeGreaterThanOrEqual(3);
    expect(views.filter(({ asInvoker }) => !asInvoker)).toEqual([]);
    const job = await ledger.submitOne();
    const other = await ledger.newOrg();
    const client = await ledger.db.reading.connect();
    try {
      for (const [org, jobs] of [
        [job.orgId, 1],
        [other, 0],
        ['', 0],
      ] as const) {
        await client.query('SELECT set_config($1, $2, false)', ['millrace.org_id', org]);
        const { rows } = await client.query(`SELECT current_user AS who, (SELECT count(*)::int4 FROM millrace.jobs) AS jobs,
          (SELECT count(DISTINCT job_seq)::int4 FROM millrace.events) AS events, (SELECT count(*)::int4 FROM millrace.ready_jobs) AS ready,
          (SELECT count(*)::int4 FROM millrace.orgs) AS orgs`);
        expect(rows).toEqual([{ who: 'millrace_reader', jobs, events: jobs, ready: jobs, orgs: org === '' ? 0 : 1 }]);
      }
      await expect(client.query('SELECT secret FROM millrace.sealing_key')).rejects.toThrow(/permission denied/);
      await expect(client.query('DELETE FROM millrace.jobs')).rejects.toThrow(/permission denied/);
      await expect(client.query('SELECT millrace.prepare_reader()')).rejects.toThrow(/permission denied/);
    } finally {
      client.release(true);
    }
  });

  it('serves many orgs on one session at the same time, each with its own rows', async () => {
    const database = openDatabase({ url: ledger.db.url, apiPool: 2 });
    makePatient(database);
    onTestFinished(() => database.close());
    expect(database.reading.options.max).toBe(1);
    const jobs: TestJob[] = [];
    for (let n = 0; n < 20; n++) jobs.push(await ledger.submitOne());
    // The statement asks for the org of the job, as if the org of the caller had been forgotten.
    const isRight = async (n: number) => {
      const [asked, job] = [jobs[n % 20] as TestJob, jobs[(n * 7) % 20] as TestJob];
      const found = await getJob(database.reads.of(asked.orgId), wholeOrg(job.orgId), job.id);
      return (found !== null) === (asked.orgId === job.orgId);
    };
    const seen: boolean[] = [];
    const lanes = [0, 1, 2, 3].map(async (lane) => {
      for (let n = lane; n < 100; n += 4) seen.push(await isRight(n));
    });
    await Promise.all(lanes);
    expect(seen).toHaveLength(100);
    expect(seen.every(Boolean)).toBe(true);
  });

  it('is not used again on a session that failed to get its org', async () => {
    const job = await ledger.submitOne();
    await expect(ledger.db.reads.of('no org').query({ text: 'SELECT count(*) FROM millrace.jobs' })).rejects.toThrow(/uuid/);
    expect((await getJob(ledger.db.reads.of(job.orgId), job, job.id))?.id).toBe(job.id);
  });
});

describe('an owner of the schema that may not create roles', () => {
  it('runs without the second lock, says so, and gets the lock once an administrator gives the role', async () => {
    const { maintenance, url } = ledger.db;
    const [owner, reader] = [`owner_${process.pid}_${Date.now()}`, new URL(url)];
    await maintenance.query(`CREATE ROLE ${owner} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA millrace TO ${owner};
      GRANT SELECT ON ALL TABLES IN SCHEMA millrace TO ${owner}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA millrace TO ${owner}`);
    onTestFinished(async () => void (await maintenance.query(`DROP OWNED BY ${owner}; DROP ROLE ${owner}`)));
    reader.username = owner;
    reader.password = 'secret';
    const job = await ledger.submitOne();
    const whoReads = async () => {
      const database = openDatabase({ url: reader.href });
      makePatient(database);
      try {
        const isReady = await prepareReader(database.maintenance);
        const { rows } = await database.reads.of(job.orgId).query({ text: 'SELECT current_user AS who' });
        return { isReady, who: rows[0].who, found: (await getJob(database.reads.of(job.orgId), job, job.id)) !== null };
      } finally {
        await database.close();
      }
    };
    expect(await whoReads()).toEqual({ isReady: false, who: owner, found: true });
    await maintenance.query(`GRANT millrace_reader TO ${owner}`);
    expect(await whoReads()).toEqual({ isReady: true, who: 'millrace_reader', found: true });
  });

  it('prepares the role itself as soon as it may create roles, on the oldest server too', async () => {
    const scratch = await makeScratch();
    onTestFinished(() => scratch.remove());
    const server = await startExternal({ folder: scratch.fresh('roles') });
    onTestFinished(() => server.stop());
    const admin = new pg.Client({ connectionString: server.url });
    await admin.connect();
    try {
      await admin.query(`CREATE ROLE plain LOGIN PASSWORD 'secret'`);
      await admin.query('CREATE DATABASE ledger OWNER plain');
      const url = new URL(server.url);
      [url.username, url.pathname] = ['plain', '/ledger'];
      const whoReads = async () => {
        const database = openDatabase({ url: url.href });
        makePatient(database);
        try {
          await migrate(database.maintenance);
          const { rows } = await database.reads.of(randomUUID()).query({ text: 'SELECT current_user AS who' });
          return { isReady: await prepareReader(database.maintenance), who: rows[0].who };
        } finally {
          await database.close();
        }
      };
      expect(await whoReads()).toEqual({ isReady: false, who: 'plain' });
      await admin.query('ALTER ROLE plain CREATEROLE');
      expect(await whoReads()).toEqual({ isReady: true, who: 'millrace_reader' });
      expect(await whoReads()).toEqual({ isReady: true, who: 'millrace_reader' });
    } finally {
      await admin.end();
    }
  });
});
