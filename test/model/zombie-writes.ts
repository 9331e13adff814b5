/** What a worker may still write with a lease it lost, though it holds the very job again by a newer one. */
import { expect } from 'vitest';
import { completeJobs, completeLateJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { assertOwned, holdAttempt, reportProgress, saveCheckpoint } from '../../src/ledger/attempts/fenced-writes.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { returnExpired, returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { presumeStarted, settleOrphans } from '../../src/ledger/attempts/settle-orphans.ts';
import { startedBefore, startFreeJobs, startJobs, unstartedOf } from '../../src/ledger/attempts/start-jobs.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { lockParent } from '../../src/ledger/jobs/guard-parent.ts';
import { type LeasedTestJob, settled, type TestLedger } from '../ledger/fixture.ts';
import { lateJob, leaseOneAhead, newJobAhead } from '../ledger/lease-ahead.ts';

/** One worker, one job, two leases: `old` was lost, `job` holds. */
type Reborn = { old: LeasedTestJob; job: LeasedTestJob };

/** Its first attempt was given up on; its second runs. */
async function restarted(ledger: TestLedger): Promise<Reborn> {
  const old = await ledger.start(await ledger.submitOne());
  await ledger.settle(old, { to: 'retrying', reason: 'worker_lost', delayMs: 0 });
  return { old, job: await ledger.start(old, old.workerId) };
}

/** Its first lease was taken away before the attempt began; its second has not started either. */
async function released(ledger: TestLedger): Promise<Reborn> {
  const old = await ledger.lease(await ledger.submitOne());
  await returnJobs(ledger.db.workers, { workerId: old.workerId, jobs: [old], closedClaims: [] });
  return { old, job: await ledger.lease(old, old.workerId) };
}

/** Its first lease was taken away before its handler was called; by its second the handler may run already. */
async function leasedAhead(ledger: TestLedger): Promise<Reborn> {
  const old = await newJobAhead(ledger);
  await returnJobs(ledger.db.workers, { workerId: old.workerId, jobs: [old], closedClaims: [] });
  return { old, job: await leaseOneAhead(ledger, old, old.workerId) };
}

/** The same, and somebody asked to cancel the job. */
async function askedToStop(ledger: TestLedger): Promise<Reborn> {
  const reborn = await leasedAhead(ledger);
  const { orgId, id } = reborn.job;
  await cancelJobs(ledger.db.api, { projectId: null, orgId, ids: [id], reason: null, actor: null, force: false });
  return reborn;
}

/** Silent for good, so that of the rescuer's guards only the lease is left. */
const stop = (ledger: TestLedger, { workerId }: LeasedTestJob) =>
  ledger.db.api.query('UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1', [workerId]);

/** After the write has had its chance, the job must be as it was. */
async function unchanged(ledger: TestLedger, { job }: Reborn, write: () => Promise<void>): Promise<void> {
  const before = await ledger.rowOf(job);
  await write();
  expect(await ledger.rowOf(job), 'the row after a zombie wrote').toEqual(before);
}

const SUCCESS = { to: 'completed', reason: 'succeeded' } as const;

type Check = (db: Queryable, ledger: TestLedger) => Promise<void>;

const settleBy =
  (by: 'lease' | 'handler' | 'dead_worker'): Check =>
  async (db, ledger) => {
    const reborn = await restarted(ledger);
    const { workerId } = reborn.old;
    await stop(ledger, reborn.old);
    await unchanged(ledger, reborn, async () => {
      const jobs = [settled(reborn.old, SUCCESS)];
      if (by === 'dead_worker') await settleOrphans(db, { workerId, beat: null, jobs });
      else await settleJobs(db, { workerId, jobs, by, closedClaims: [] });
    });
  };

const finishIt =
  (options: { skipsLocked: boolean }): Check =>
  async (db, ledger) => {
    const reborn = await restarted(ledger);
    const { workerId } = reborn.old;
    const finished = [{ ...reborn.old, result: null }];
    await unchanged(ledger, reborn, async () => {
      await completeJobs(db, { workerId, finished, closedClaims: [] }, options);
    });
  };

const finishLate =
  (options: { skipsLocked: boolean }): Check =>
  async (db, ledger) => {
    const reborn = await leasedAhead(ledger);
    const { workerId } = reborn.old;
    await unchanged(ledger, reborn, async () => {
      await completeLateJobs(db, { workerId, finished: [lateJob(reborn.old)], closedClaims: [] }, options);
    });
  };

type GiveBack = (db: Queryable, params: { workerId: number; jobs: LeasedTestJob[]; closedClaims: [] }) => Promise<unknown>;

const giveBackBy =
  (giveBack: GiveBack, bear: (ledger: TestLedger) => Promise<Reborn>): Check =>
  async (db, ledger) => {
    const reborn = await bear(ledger);
    const { workerId } = reborn.old;
    await stop(ledger, reborn.old);
    await unchanged(ledger, reborn, async () => {
      await giveBack(db, { workerId, jobs: [reborn.old], closedClaims: [] });
    });
  };

const returnDead: GiveBack = (db, { workerId, jobs }) => returnExpired(db, { workerId, beat: null, jobs });

const rowsOf = async (ledger: TestLedger, table: 'progress' | 'checkpoints', { seq }: LeasedTestJob) =>
  (await ledger.db.api.query(`SELECT * FROM millrace.${table} WHERE seq = $1`, [seq])).rows;

/** For each guarded statement a check that holds on the real ledger. */
export const ZOMBIE_WRITES: Record<string, Check> = {
  millrace_complete_jobs: finishIt({ skipsLocked: false }),
  millrace_complete_unlocked_jobs: finishIt({ skipsLocked: true }),
  millrace_settle_jobs: settleBy('lease'),
  millrace_settle_in_transaction: settleBy('handler'),
  millrace_settle_orphans: settleBy('dead_worker'),
  millrace_complete_late_jobs: finishLate({ skipsLocked: false }),
  millrace_complete_unlocked_late_jobs: finishLate({ skipsLocked: true }),
  millrace_return_jobs: giveBackBy(returnJobs, released),
  millrace_return_expired_jobs: giveBackBy(returnDead, released),

  millrace_presume_started: async (db, ledger) => {
    const reborn = await leasedAhead(ledger);
    const { workerId } = reborn.old;
    await stop(ledger, reborn.old);
    await unchanged(ledger, reborn, async () => {
      await presumeStarted(db, { workerId, beat: null, jobs: [reborn.old] });
    });
  },

  millrace_start_jobs: async (db, ledger) => {
    const reborn = await released(ledger);
    const { workerId } = reborn.old;
    await unchanged(ledger, reborn, async () => {
      await startJobs(db, { workerId, jobs: [reborn.old] });
    });
  },

  millrace_start_free_jobs: async (db, ledger) => {
    const reborn = await leasedAhead(ledger);
    const { workerId } = reborn.old;
    await unchanged(ledger, reborn, async () => {
      await startFreeJobs(db, { workerId, jobs: [reborn.old] });
    });
  },

  millrace_unstarted_jobs: async (db, ledger) => {
    const { old } = await leasedAhead(ledger);
    const unstarted = await unstartedOf(db, { workerId: old.workerId, jobs: [old] });
    expect([...unstarted], 'leases that a zombie takes for its own').toEqual([]);
  },

  millrace_started_jobs: async (db, ledger) => {
    const { old } = await restarted(ledger);
    const { started } = await startedBefore(db, { workerId: old.workerId, jobs: [old] });
    expect([...started], 'attempts that a zombie takes for its own').toEqual([]);
  },

  millrace_report_progress: async (db, ledger) => {
    const { old } = await restarted(ledger);
    await reportProgress(db, { ...old, percent: 99, message: 'from the grave' });
    expect(await rowsOf(ledger, 'progress', old), 'progress that a zombie reported').toEqual([]);
  },

  millrace_save_checkpoint: async (db, ledger) => {
    const { old } = await restarted(ledger);
    await saveCheckpoint(db, { ...old, state: Buffer.from('from the grave') });
    expect(await rowsOf(ledger, 'checkpoints', old), 'checkpoints that a zombie saved').toEqual([]);
  },

  millrace_heartbeat: async (db, ledger) => {
    const { old, job } = await restarted(ledger);
    const { lost } = await heartbeat(db, { workerId: old.workerId, jobs: [old, job] });
    expect(lost, 'leases that a heartbeat reports lost').toEqual([old.leaseSeq]);
  },

  millrace_lock_parent: async (db, ledger) => {
    const { old } = await restarted(ledger);
    expect(await lockParent(db, old), 'the parent of a spawn by a zombie').toEqual({ landed: false });
  },

  millrace_hold_attempt: async (db, ledger) => {
    const { old } = await restarted(ledger);
    expect((await holdAttempt(db, old, null)).landed, 'an attempt that a zombie holds').toBe(false);
  },

  millrace_assert_owned: async (db, ledger) => {
    const { old } = await restarted(ledger);
    expect(await assertOwned(db, old), 'ownership that a zombie claims').toBeNull();
  },
};

/** Second zombies of statements that end a job in more than one way. */
export const MORE_ZOMBIE_WRITES: readonly [name: string, what: string, check: Check][] = [
  ['millrace_return_jobs', 'that would cancel the job', giveBackBy(returnJobs, askedToStop)],
  ['millrace_return_expired_jobs', 'that would cancel the job', giveBackBy(returnDead, askedToStop)],
  ['millrace_return_jobs', 'of a job that was leased ahead', giveBackBy(returnJobs, leasedAhead)],
  [
    'millrace_start_jobs',
    'of a job that was leased ahead',
    async (db, ledger) => {
      const reborn = await leasedAhead(ledger);
      const { workerId } = reborn.old;
      await unchanged(ledger, reborn, async () => {
        await startJobs(db, { workerId, jobs: [{ ...reborn.old, ranMs: 5 }] });
      });
    },
  ],
];
