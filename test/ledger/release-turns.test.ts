/** What one org has to release does not hold up the releases of others, however much it is and whatever is wrong with it. */
import { describe, expect, test } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { placeDependents, type RefusedEntries } from '../../src/engine/submit/placement.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { lockDependencies } from '../../src/ledger/jobs/lock-dependencies.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const SUCCESS = { to: 'completed', reason: 'succeeded' } as const;
/** What one turn moves at most. */
const TURN = 500;

const release = (limit = 100) => releaseDependents(ledger.db.maintenance, limit);

async function drain(): Promise<void> {
  while ((await release()).consumed > 0);
}

const finish = async (job: TestJob) => ledger.settle(await ledger.start(job), SUCCESS);

/** Jobs that wait for one other, in few statements. */
async function dependents(job: TestJob, count: number): Promise<void> {
  const placement = {
    priority: 2,
    depth: 1,
    parentSeq: null,
    joinsParent: false,
    waits: true,
    dependsOnSeqs: [job.seq],
  };
  const entry = await ledger.toWrite(job.orgId, { type: `many-${job.seq}` });
  for (let start = 0; start < count; start += 1_000) {
    const ids = Array.from({ length: Math.min(1_000, count - start) }, () => crypto.randomUUID());
    await submitJobs(
      ledger.db.api,
      ids.map((id) => ({ ...entry, id, placement })),
    );
  }
}

const pendingOf = async ({ orgId }: TestJob): Promise<number> =>
  (await ledger.db.api.query(`SELECT count(*)::int4 AS count FROM millrace.jobs WHERE org_id = $1 AND state = 'pending'`, [orgId])).rows[0]
    .count;

describe('a job with more dependents than one turn moves', () => {
  test('wakes them in pages, each dependent once', async () => {
    const job = await ledger.submitOne();
    const count = 2 * TURN + 100;
    await dependents(job, count);
    await drain();
    await finish(job);
    const left: number[] = [];
    do {
      await release();
      left.push(await pendingOf(job));
    } while (left.at(-1) !== 0 && left.length < 10);
    expect(left).toEqual([count - TURN, count - 2 * TURN, 0]);
    const { rows } = await ledger.db.api.query(`SELECT DISTINCT state, event_count FROM millrace.jobs WHERE org_id = $1 AND depth = 1`, [
      job.orgId,
    ]);
    expect(rows).toEqual([{ state: 'scheduled', event_count: 2 }]);
    expect((await release()).consumed).toBe(0);
  });

  test('shares each turn with other orgs, and with other releases of its own', async () => {
    const large = await ledger.submitOne();
    await dependents(large, 2 * TURN);
    const small = [await ledger.submitOne({ orgId: large.orgId }), await ledger.submitOne(), await ledger.submitOne()];
    for (const job of small) await dependents(job, 1);
    await drain();
    for (const job of [large, ...small]) await finish(job);
    await release();
    expect(await Promise.all(small.slice(1).map(pendingOf))).toEqual([0, 0]);
    expect(await pendingOf(large)).toBeGreaterThanOrEqual(TURN);
    const { rows } = await ledger.db.api.query('SELECT seq FROM millrace.releases WHERE org_id = $1', [large.orgId]);
    expect(rows).toEqual([{ seq: large.seq }]);
    await drain();
    expect(await pendingOf(large)).toBe(0);
  });

  test('of another org never takes the place of an org that has waited', async () => {
    const flood = await Promise.all(Array.from({ length: 6 }, () => ledger.submitOne()));
    const first = flood[0] as TestJob;
    for (const job of flood) await dependents({ ...job, orgId: job.orgId }, 1);
    const many = await Promise.all(Array.from({ length: 10 }, () => ledger.submitOne({ orgId: first.orgId })));
    for (const job of many) await dependents(job, 1);
    await drain();
    for (const job of many) await finish(job);
    for (const job of flood) await finish(job);
    let next: Awaited<ReturnType<typeof release>>['next'] | undefined;
    for (let turn = 0; turn < 6; turn++) ({ next } = await releaseDependents(ledger.db.maintenance, 3, { position: next }));
    expect(await Promise.all(flood.slice(1).map(pendingOf))).toEqual([0, 0, 0, 0, 0]);
    await drain();
  });
});

test('a release that fails is tried alone, put off and reported, and the others are done', async () => {
  const [bad, good] = [await ledger.submitOne(), await ledger.submitOne()];
  for (const job of [bad, good]) await dependents(job, 2);
  await drain();
  for (const job of [bad, good]) await finish(job);
  await ledger.db.maintenance.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.job_type = 'many-${bad.seq}' THEN RAISE 'this job cannot be moved'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON millrace.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`);
  const { rows: before } = await ledger.db.api.query('SELECT now()::text AS now');
  const { failed } = await release();
  expect(failed).toMatchObject([{ orgId: bad.orgId, seq: bad.seq, error: { message: 'this job cannot be moved' } }]);
  expect([await pendingOf(bad), await pendingOf(good)]).toEqual([2, 0]);
  // Later by a tenth of a second, which may have passed by now.
  const text = `SELECT seq, failures, due_at >= $1::timestamptz + interval '100 ms' AS is_later FROM millrace.releases`;
  const { rows } = await ledger.db.api.query(text, [before[0].now]);
  expect(rows).toEqual([{ seq: bad.seq, failures: 1, is_later: true }]);
  await ledger.db.maintenance.query(`DROP TRIGGER refuse ON millrace.jobs; UPDATE millrace.releases SET due_at = '-infinity'`);
  expect((await release()).failed).toEqual([]);
  expect(await pendingOf(bad)).toBe(0);
});

test('postponed releases do not keep the releaser busy, however many orgs have some', async () => {
  await ledger.db.api.query(`INSERT INTO millrace.releases (org_id, seq, failures, due_at)
    SELECT gen_random_uuid(), n, 1, now() + interval '1 day' FROM generate_series(1, 20) n`);
  const first = await release(5);
  expect(first).toMatchObject({ consumed: 0, again: false });
  await ledger.db.api.query('DELETE FROM millrace.releases');
});

describe('the number of dependents of a job', () => {
  const countOf = async (job: TestJob) => (await lockDependencies(ledger.db.api, { orgId: job.orgId, ids: [job.id] }))[0]?.dependents;

  test('is known before and after the releaser has counted them', async () => {
    const job = await ledger.submitOne();
    await dependents(job, 3);
    expect(await countOf(job)).toBe(3);
    await drain();
    expect(await countOf(job)).toBe(3);
    await dependents(job, 2);
    expect(await countOf(job)).toBe(5);
    await drain();
    const { rows } = await ledger.db.api.query('SELECT dependents FROM millrace.dependent_counts WHERE seq = $1', [job.seq]);
    expect(rows).toEqual([{ dependents: 5 }]);
  });

  test('is bounded, and the refusal says what to do instead', async () => {
    const job = await ledger.submitOne();
    await ledger.db.api.query('INSERT INTO millrace.dependent_counts VALUES ($1, $2, 99999, $2)', [job.orgId, job.seq]);
    const entries = await Promise.all([1, 2].map(() => ledger.toWrite(job.orgId, { job: { dependsOn: [job.id] } })));
    const placing = inTransaction(ledger.db.api, (client) => placeDependents(client, entries));
    const error = await placing.catch((reason: unknown) => reason);
    expect(isAppError(error, 'INVALID_REQUEST')).toBe(true);
    const refused = (error as RefusedEntries).refused;
    expect([...refused.keys()]).toEqual([entries[1]]);
    expect([...refused.values()].flat()).toMatchObject([
      {
        field: 'dependsOn',
        code: 'TOO_MANY_DEPENDENTS',
        message: expect.stringContaining('submit one job that depends on it'),
      },
    ]);
  });
});
