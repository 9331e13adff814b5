/** A user's open transaction that has submitted a job with dependencies holds up nothing that happens to these. */
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { completeJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { returnExpired } from '../../src/ledger/attempts/return-jobs.ts';
import { settleOrphans } from '../../src/ledger/attempts/settle-orphans.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { updateJob } from '../../src/ledger/jobs/update-job.ts';
import { expireJobs } from '../../src/ledger/upkeep/expire-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { type LeasedTestJob, settled, type TestJob, useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';

const ledger = useLedger();
useLockPatience(ledger);
const DAY = 86_400_000;
const FAILED = { to: 'failed', reason: 'permanent_failure' } as const;
const MET = 'pending>scheduled:dependencies_met';
const asked = ({ orgId, id }: TestJob) => ({ projectId: null, orgId, ids: [id], reason: null, actor: null, force: false });

async function drain(): Promise<void> {
  while ((await releaseDependents(ledger.db.maintenance, 100)).consumed > 0);
}

/** Runs `meanwhile` while a transaction of a user is open that has submitted a dependent of the job. Returns the dependent. */
async function besideSubmission(job: TestJob, meanwhile: () => Promise<unknown>): Promise<TestJob> {
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  try {
    await client.query('BEGIN');
    const dependent = await ledger.submitOneOn(client, { orgId: job.orgId, dependsOn: [job] });
    await meanwhile();
    await client.query('COMMIT');
    return dependent;
  } finally {
    await client.end();
  }
}

const rescue = async (job: LeasedTestJob) => {
  await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [job.workerId]);
  const jobs = [settled(job, { to: 'retrying', reason: 'worker_lost', delayMs: 0 })];
  const beat = await ledger.beatOf(job.workerId);
  return settleOrphans(ledger.db.workers, { workerId: job.workerId, beat, jobs });
};

describe('while a dependent is being submitted, its dependency can be', () => {
  test('claimed, started and completed, and the dependent runs [GM-6.13]', async () => {
    const job = await ledger.submitOne();
    const dependent = await besideSubmission(job, async () => {
      const leased = await ledger.start(job);
      const finished = [{ orgId: job.orgId, seq: job.seq, leaseSeq: leased.leaseSeq, result: null }];
      const { landed } = await completeJobs(ledger.db.workers, {
        workerId: leased.workerId,
        finished,
        closedClaims: [],
      });
      expect(landed).toEqual(new Set([leased.leaseSeq]));
      await drain();
    });
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe(MET);
  });

  test('failed, and the dependent shares its fate [GM-6.14]', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const dependent = await besideSubmission(job, async () => {
      expect(await ledger.settle(job, FAILED)).toBe(true);
      await drain();
    });
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>failed:dependency_failed');
  });

  test('cancelled, and the dependent shares its fate [GM-6.16]', async () => {
    const job = await ledger.submitOne();
    const dependent = await besideSubmission(job, async () => {
      expect(await cancelJobs(ledger.db.api, asked(job))).toMatchObject([{ kind: 'cancelled' }]);
    });
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>cancelled:dependency_cancelled');
  });

  test('changed', async () => {
    const job = await ledger.submitOne();
    await besideSubmission(job, async () => {
      const change = { priority: 0, tags: { of: 'other' } };
      expect(await updateJob(ledger.db.api, { projectId: null, orgId: job.orgId, id: job.id, change })).toEqual({ kind: 'updated' });
    });
    expect(await ledger.rowOf(job)).toMatchObject({ priority: 0 });
  });

  test('retried manually, and the dependent waits for its second end', async () => {
    const job = await ledger.putJob('failed');
    const dependent = await besideSubmission(job, async () => {
      const wish = { resetAttempts: true, priority: null, delayMs: null, actor: null };
      expect(await retryJob(ledger.db.api, { projectId: null, orgId: job.orgId, id: job.id, ...wish })).toMatchObject({
        kind: 'queued',
      });
    });
    await drain();
    expect(await ledger.stateOf(dependent)).toBe('pending');
    await ledger.settle(await ledger.start(job), { to: 'completed', reason: 'succeeded' });
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe(MET);
  });

  test('rescued, whether it was started or not', async () => {
    const started = await ledger.start(await ledger.submitOne());
    await besideSubmission(started, async () => {
      expect((await rescue(started)).landed).toEqual(new Set([started.leaseSeq]));
    });
    const leased = await ledger.lease(await ledger.submitOne());
    await besideSubmission(leased, async () => {
      const { workerId } = leased;
      await ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [workerId]);
      const beat = await ledger.beatOf(workerId);
      expect((await returnExpired(ledger.db.workers, { workerId, beat, jobs: [leased] })).landed.size).toBe(1);
    });
  });

  test('staged', async () => {
    const job = await ledger.putJob('delayed');
    await ledger.moveClock(60_001);
    await besideSubmission(job, async () => {
      await stageJobs(ledger.db.workers, { limit: 1_000, floor: null });
      expect(await ledger.stateOf(job)).toBe('scheduled');
    });
  });

  test('ended because its lifetime is over [GM-6.15]', async () => {
    const job = await ledger.submitOne({ policy: { lifetimeMs: 1_000 } });
    await ledger.moveClock(1_001);
    const dependent = await besideSubmission(job, async () => {
      await expireJobs(ledger.db.maintenance, 1_000);
      expect(await ledger.stateOf(job)).toBe('dead_letter');
    });
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>dead_letter:dependency_dead_letter');
  });

  test('ended before the submission, in a transaction whose snapshot is older', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const client = new pg.Client({ connectionString: ledger.db.url });
    await client.connect();
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await client.query('SELECT count(*) FROM millrace.queues');
    await ledger.settle(job, FAILED);
    const dependent = await ledger.submitOneOn(client, { orgId: job.orgId, dependsOn: [job] });
    await client.query('COMMIT');
    await client.end();
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>failed:dependency_failed');
  });

  test('a dependency of others, whose ends move on', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const other = await ledger.submitOne({ orgId: job.orgId, dependsOn: [job] });
    await drain();
    await besideSubmission(job, async () => {
      await ledger.settle(job, { to: 'completed', reason: 'succeeded' });
      await drain();
      expect((await ledger.pathOf(other)).at(-1)).toBe(MET);
    });
  });
});

describe('a failed job that retention no longer keeps', () => {
  const outlived = async () => {
    const job = await ledger.putJob('failed');
    await ledger.moveClock(400 * DAY);
    return job;
  };
  const prune = () => ledger.prune();
  const exists = async (job: TestJob) => (await ledger.rowOf(job)) !== undefined;

  test('stays while a dependent is submitted and until that has failed with it [GM-6.14]', async () => {
    const job = await outlived();
    const stranger = await outlived();
    const dependent = await besideSubmission(job, async () => {
      await prune();
      expect([await exists(job), await exists(stranger)]).toEqual([true, false]);
    });
    await prune();
    expect(await exists(job)).toBe(true);
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>failed:dependency_failed');
    await prune();
    expect(await exists(job)).toBe(false);
  });

  test('stays although the pruner began before the dependent was committed and came to the job afterwards', async () => {
    const job = await outlived();
    const gate = new pg.Client({ connectionString: ledger.db.url });
    await gate.connect();
    let pruning: Promise<unknown> = Promise.resolve();
    const dependent = await besideSubmission(job, async () => {
      // The pruner looks at the clock when it has its snapshot and not yet the locks. The first round leaves it a plan.
      await gate.query(`CREATE OR REPLACE FUNCTION millrace.clock() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS
        $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN now() + interval '4000 days'; END $$`);
      await prune();
      await gate.query('SELECT pg_advisory_lock(7)');
      pruning = prune();
      await ledger.untilBlocked();
    });
    await gate.query('SELECT pg_advisory_unlock(7)');
    await pruning;
    await gate.end();
    await ledger.moveClock(0);
    expect(await exists(job)).toBe(true);
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>failed:dependency_failed');
  });

  test('cannot be depended on once it is removed, and its dependent never runs [GM-6.10]', async () => {
    const job = await outlived();
    const dependent = await ledger.submitOne({ orgId: job.orgId, dependsOn: [job] });
    await ledger.db.api.query('DELETE FROM millrace.jobs WHERE id = $1', [job.id]);
    await drain();
    expect((await ledger.pathOf(dependent)).at(-1)).toBe('pending>failed:dependency_failed');
  });

  test('stays while the releaser is still to look at it', async () => {
    const parent = await ledger.start(await ledger.submitOne());
    const placement = { parentSeq: parent.seq, joinsParent: true };
    const child = await ledger.start(await ledger.submitOne({ orgId: parent.orgId, placement }));
    await ledger.settle(parent, { to: 'completed', reason: 'succeeded', holds: true });
    await ledger.settle(child, FAILED);
    await ledger.moveClock(400 * DAY);
    await prune();
    expect(await exists(child)).toBe(true);
    await drain();
    expect((await ledger.pathOf(parent)).at(-1)).toBe('running>completed:succeeded');
    await prune();
    expect(await exists(child)).toBe(false);
  });

  test('stays while a transaction holds its key, and the other jobs go', async () => {
    const job = await ledger.putJob('completed', { job: { idempotencyKey: 'held', fingerprint: 'same' } });
    const stranger = await ledger.putJob('completed');
    await ledger.moveClock(400 * DAY);
    const client = await ledger.db.api.connect();
    await client.query('BEGIN');
    await client.query('SELECT FROM millrace.idempotency_keys WHERE job_id = $1 FOR NO KEY UPDATE', [job.id]);
    await prune();
    expect([await exists(job), await exists(stranger)]).toEqual([true, false]);
    await client.query('COMMIT');
    client.release();
    await prune();
    expect(await exists(job)).toBe(false);
  });
});
