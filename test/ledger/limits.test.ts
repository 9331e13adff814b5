import { describe, expect, test } from 'vitest';
import { mostAtOnce, runIntervals } from '../../chaos/limit-history.ts';
import type { JobLimit } from '../../src/core/limit.ts';
import { wholeOrg } from '../../src/core/owner.ts';
import { completeJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { LimitCache } from '../../src/ledger/jobs/intern-limits.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { updateJob } from '../../src/ledger/jobs/update-job.ts';
import { expireJobs } from '../../src/ledger/upkeep/expire-jobs.ts';
import { grantLimited, pruneLimits, waitingLimits } from '../../src/ledger/upkeep/grant-limited.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { type LeasedTestJob, type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const limits = () => new LimitCache(ledger.db.api);

const one = (key: string, numbers: Partial<JobLimit> = { concurrency: 1 }): JobLimit => ({
  key,
  concurrency: null,
  rate: null,
  perMs: null,
  ...numbers,
});

type Case = { orgId: string; limitId: number; jobs: TestJob[]; type: string; workerId: number };

/** Jobs of one org and type that share a limit, and a worker that serves them. */
async function waiting(count: number, limit: JobLimit, given: { orgId?: string; lifetimeMs?: number } = {}): Promise<Case> {
  const orgId = given.orgId ?? (await ledger.newOrg());
  const limitId = await limits().idOf(orgId, limit);
  const type = `limited-${crypto.randomUUID()}`;
  const workerId = await ledger.registerWorker();
  await ledger.db.api.query('UPDATE millrace.workers SET types = $2 WHERE id = $1', [workerId, [type]]);
  const entries = [];
  const policy = given.lifetimeMs === undefined ? {} : { lifetimeMs: given.lifetimeMs };
  for (let n = 0; n < count; n++) entries.push({ ...(await ledger.toWrite(orgId, { type, job: { limit }, policy })), limitId });
  await submitJobs(ledger.db.api, entries);
  const { rows } = await ledger.db.api.query('SELECT id, seq FROM millrace.jobs WHERE limit_id = $1 AND job_type = $2 ORDER BY seq', [
    limitId,
    type,
  ]);
  const jobs = rows.map(({ id, seq }) => ({ orgId, projectId: null, id, seq: Number(seq), jobType: type }));
  return { orgId, limitId, jobs, type, workerId };
}

async function grant(limitId: number, most = 100): Promise<number> {
  const [looked] = await grantLimited(ledger.db.api, [limitId], most);
  return looked?.granted ?? -1;
}

/** Starts the first job that has a grant. */
async function start({ jobs, workerId }: Case): Promise<LeasedTestJob> {
  const running = await ledger.start(jobs[0] as TestJob, workerId);
  return { ...running, seq: running.started.seq };
}

async function complete({ orgId, seq, leaseSeq, workerId }: LeasedTestJob): Promise<void> {
  await completeJobs(ledger.db.api, { workerId, finished: [{ orgId, seq, leaseSeq, result: null }], closedClaims: [] });
}

const tokens = async (table: 'limited' | 'ready', type: string): Promise<number> =>
  Number((await ledger.db.api.query(`SELECT count(*) FROM millrace.${table} WHERE job_type = $1`, [type])).rows[0].count);

describe('a limit on jobs at the same time', () => {
  test('no job with a limit is ready before a grant, and only as many as there is room for are granted', async () => {
    const given = await waiting(5, one('three', { concurrency: 3 }));
    expect(await tokens('ready', given.type)).toBe(0);
    expect(await grant(given.limitId)).toBe(3);
    expect([await tokens('ready', given.type), await tokens('limited', given.type)]).toEqual([3, 2]);
    expect(await grant(given.limitId)).toBe(0);
  });

  test('a job that ends makes room for the next one, in the order of submission', async () => {
    const given = await waiting(3, one('serial'));
    for (const job of given.jobs) {
      expect(await grant(given.limitId)).toBe(1);
      expect(await grant(given.limitId)).toBe(0);
      const running = await start(given);
      expect(running.seq).toBe(job.seq);
      expect(await grant(given.limitId)).toBe(0);
      await complete(running);
    }
    expect(await grant(given.limitId)).toBe(0);
  });

  test('a claim that was stopped after it read the clock does not start a job before the end that made room for it', async () => {
    const given = await waiting(2, one('stopped claim'));
    await grant(given.limitId);
    await complete(await start(given));
    await grant(given.limitId);
    const clock = (late: string) =>
      ledger.db.api.query(`CREATE OR REPLACE FUNCTION millrace.clock() RETURNS timestamptz LANGUAGE sql
      STABLE PARALLEL SAFE AS $$ SELECT pg_catalog.statement_timestamp() - interval '${late}' $$`);
    await clock('1 second');
    try {
      await start(given);
    } finally {
      await clock('0 seconds');
    }
    expect(mostAtOnce(await runIntervals(ledger.db.api, 'stopped claim'))).toBe(1);
  });

  test('two orgs with one key do not share the limit', async () => {
    const [mine, theirs] = [await waiting(2, one('shared')), await waiting(2, one('shared'))];
    expect(mine.limitId).not.toBe(theirs.limitId);
    expect([await grant(mine.limitId), await grant(theirs.limitId)]).toEqual([1, 1]);
  });

  test('a job that waits for its next attempt leaves its slot, and needs a new grant', async () => {
    const given = await waiting(2, one('retry'));
    await grant(given.limitId);
    const running = await start(given);
    await ledger.settle(running, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
    expect(await tokens('limited', given.type)).toBe(2);
    expect(await grant(given.limitId)).toBe(1);
    expect(await grant(given.limitId)).toBe(0);
  });

  test('a job that its worker returned needs a new grant', async () => {
    const given = await waiting(2, one('return'));
    await grant(given.limitId);
    const leased = await ledger.lease(given.jobs[0] as TestJob, given.workerId);
    expect(await grant(given.limitId)).toBe(0);
    await returnJobs(ledger.db.api, { workerId: given.workerId, jobs: [leased], closedClaims: [] });
    expect(await tokens('ready', given.type)).toBe(0);
    expect(await grant(given.limitId)).toBe(1);
    expect(await grant(given.limitId)).toBe(0);
  });

  test('a cancelled job frees its slot, and leaves no token', async () => {
    const given = await waiting(3, one('cancel'));
    await grant(given.limitId);
    const cancel = { ...wholeOrg(given.orgId), reason: null, actor: null, force: false };
    await cancelJobs(ledger.db.api, { ...cancel, ids: given.jobs.slice(0, 2).map(({ id }) => id) });
    expect([await tokens('ready', given.type), await tokens('limited', given.type)]).toEqual([0, 1]);
    expect(await grant(given.limitId)).toBe(1);
  });

  test('a job whose priority changes keeps one token and goes first', async () => {
    const given = await waiting(3, one('update'));
    const last = given.jobs[2] as TestJob;
    await updateJob(ledger.db.api, { ...wholeOrg(given.orgId), id: last.id, change: { priority: 0 } });
    expect(await tokens('limited', given.type)).toBe(3);
    expect(await grant(given.limitId)).toBe(1);
    const { rows } = await ledger.db.api.query('SELECT seqs FROM millrace.ready WHERE job_type = $1', [given.type]);
    expect(rows[0].seqs.map(Number)).toEqual([last.seq]);
  });

  test('a job past its lifetime ends while it waits for a grant', async () => {
    const given = await waiting(1, one('dies'), { lifetimeMs: 1_000 });
    await ledger.moveClock(2_000);
    await expireJobs(ledger.db.api, 100);
    expect(await tokens('limited', given.type)).toBe(0);
    expect((await ledger.db.api.query('SELECT state FROM millrace.jobs WHERE limit_id = $1', [given.limitId])).rows).toEqual([
      { state: 'dead_letter' },
    ]);
  });

  test('the numbers of the newest submission count', async () => {
    const given = await waiting(9, one('grows', { concurrency: 2 }));
    expect(await grant(given.limitId)).toBe(2);
    expect(await limits().idOf(given.orgId, one('grows', { concurrency: 5 }))).toBe(given.limitId);
    expect(await grant(given.limitId)).toBe(3);
    await limits().idOf(given.orgId, one('grows', { concurrency: 1 }));
    expect(await grant(given.limitId)).toBe(0);
  });

  test('jobs of a paused queue, and jobs that no worker serves, take no slot from others', async () => {
    const limit = one('lanes');
    const unserved = await waiting(2, limit);
    await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = now() WHERE id = $1', [unserved.workerId]);
    expect(await grant(unserved.limitId)).toBe(0);
    const served = await waiting(2, limit, { orgId: unserved.orgId });
    expect(served.limitId).toBe(unserved.limitId);
    expect(await grant(served.limitId)).toBe(1);
    expect([await tokens('ready', served.type), await tokens('ready', unserved.type)]).toEqual([1, 0]);
  });

  test('a limit that another process looks at is left to it', async () => {
    const given = await waiting(1, one('held'));
    await inTransaction(ledger.db.api, async (client) => {
      await client.query('SELECT FROM millrace.limits WHERE id = $1 FOR UPDATE', [given.limitId]);
      expect(await grantLimited(ledger.db.workers, [given.limitId], 1)).toMatchObject([{ granted: 0, isHeld: true }]);
    });
    expect(await grant(given.limitId)).toBe(1);
  });
});

describe('a limit on starts within a time', () => {
  test('a slot is free again when its job started that long ago, not when the job has ended', async () => {
    const given = await waiting(5, one('rate', { rate: 2, perMs: 600_000 }));
    expect(await grant(given.limitId)).toBe(2);
    const running = await start(given);
    await complete(running);
    expect(await grantLimited(ledger.db.api, [given.limitId], 10)).toMatchObject([{ granted: 0, nextInMs: expect.any(Number) }]);
    await ledger.moveClock(600_100);
    expect(await grant(given.limitId)).toBe(1); // The other grant has not started yet, so its slot stays occupied.
    const second = await start(given);
    await complete(second);
    expect(await grant(given.limitId)).toBe(0);
  });

  test('a granted job that is cancelled before it starts gives its slot back', async () => {
    const given = await waiting(2, one('unstarted', { rate: 1, perMs: 60_000 }));
    expect(await grant(given.limitId)).toBe(1);
    await cancelJobs(ledger.db.api, {
      ...wholeOrg(given.orgId),
      ids: [given.jobs[0]?.id as string],
      reason: null,
      actor: null,
      force: false,
    });
    expect(await grant(given.limitId)).toBe(1);
  });

  test('a start counts although its job was retried since', async () => {
    const given = await waiting(1, one('again', { rate: 1, perMs: 60_000 }));
    expect(await grant(given.limitId)).toBe(1);
    const running = await start(given);
    await ledger.settle(running, { to: 'retrying', reason: 'temporary_failure', delayMs: 0 });
    expect(await grant(given.limitId)).toBe(0);
    await ledger.moveClock(61_000);
    expect(await grant(given.limitId)).toBe(1);
  });

  test('both limits of a key apply', async () => {
    const given = await waiting(5, one('both', { concurrency: 3, rate: 2, perMs: 60_000 }));
    expect(await grant(given.limitId)).toBe(2);
    await start(given);
    await start(given);
    await ledger.moveClock(61_000);
    expect(await grant(given.limitId)).toBe(1);
  });
});

describe('limits in the ledger', () => {
  test('jobs of a limit that is gone are not stuck', async () => {
    const given = await waiting(3, one('gone'));
    await ledger.db.api.query('DELETE FROM millrace.limits WHERE id = $1', [given.limitId]);
    expect(await grant(given.limitId)).toBe(3);
  });

  test('the sweep finds limits with waiting jobs, page by page', async () => {
    const first = await waiting(50, one('sweep-1'));
    const second = await waiting(1, one('sweep-2'));
    expect(await waitingLimits(ledger.db.api, first.limitId - 1, 1)).toEqual([first.limitId]);
    expect(await waitingLimits(ledger.db.api, first.limitId, 1)).toEqual([second.limitId]);
    expect(await waitingLimits(ledger.db.api, second.limitId, 10)).toEqual([]);
  });

  test('a limit is removed when no process used it for a day and no job has it', async () => {
    const used = await waiting(1, one('prune'));
    const unused = await limits().idOf(used.orgId, one('prune-2'));
    const old = "UPDATE millrace.limits SET last_used_at = now() - interval '2 days' WHERE id = ANY ($1)";
    await ledger.db.api.query(old, [[used.limitId, unused]]);
    await pruneLimits(ledger.db.maintenance, { unusedMs: 86_400_000, limit: 100 });
    const { rows } = await ledger.db.api.query('SELECT id FROM millrace.limits WHERE id = ANY ($1)', [[used.limitId, unused]]);
    expect(rows.map(({ id }) => Number(id))).toEqual([used.limitId]);
  });

  test('the invariants hold, and a limited job that runs without a grant is found', async () => {
    const given = await waiting(3, one('checked'));
    await grant(given.limitId);
    await start(given);
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
    await ledger.db.api.query('DELETE FROM millrace.limit_grants WHERE limit_id = $1', [given.limitId]);
    expect(await checkInvariants(ledger.db.maintenance)).toMatchObject([{ invariant: 'T3', orgId: given.orgId }]);
  });
});
