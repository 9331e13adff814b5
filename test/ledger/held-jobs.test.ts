/** Jobs that some transaction holds do not hold up the loops and callers that serve others. */
import pg from 'pg';
import { expect, test } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { Canceller } from '../../src/engine/submit/canceller.ts';
import { HeldJobs } from '../../src/engine/submit/held-jobs.ts';
import { updateJob } from '../../src/ledger/jobs/update-job.ts';
import { expireJobs } from '../../src/ledger/upkeep/expire-jobs.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { until } from '../until.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const MINUTE = 60_000;

async function whileHeld<T>(jobs: readonly TestJob[], work: () => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  try {
    await client.query('BEGIN');
    const ids = jobs.map((job) => job.id);
    await client.query('SELECT FROM millrace.jobs WHERE id = ANY ($1) FOR NO KEY UPDATE', [ids]);
    return await work();
  } finally {
    await client.end();
  }
}

const isBlocked = async () => {
  const text = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  return (await ledger.db.maintenance.query(text)).rowCount !== 0;
};

const states = (jobs: readonly TestJob[]) => Promise.all(jobs.map((job) => ledger.stateOf(job)));

test('the stager passes held jobs by, lets the others go first, and comes back to them', async () => {
  const jobs = [await ledger.putJob('delayed'), await ledger.putJob('retrying'), await ledger.putJob('delayed')];
  await ledger.moveClock(MINUTE + 1);
  const stage = (limit: number) => stageJobs(ledger.db.workers, { limit, floor: null });
  await whileHeld(jobs.slice(0, 2), async () => {
    expect(await stage(2)).toMatchObject({ staged: 0, held: 2 });
    expect(await stage(1)).toMatchObject({ staged: 1, held: 0 });
    expect(await states(jobs)).toEqual(['delayed', 'retrying', 'scheduled']);
  });
  expect(await stage(10)).toMatchObject({ staged: 2, held: 0 });
  expect(await states(jobs)).toEqual(['scheduled', 'scheduled', 'scheduled']);
  for (const job of jobs) expect(await ledger.tokensOf(job, 'timers')).toBe(0);
});

test('the end of a lifetime passes held jobs by, and comes back to them', async () => {
  const mortal = { policy: { lifetimeMs: MINUTE } };
  const held = [await ledger.putJob('scheduled', mortal), await ledger.putJob('retrying', mortal), await ledger.putJob('pending', mortal)];
  const free = await ledger.putJob('scheduled', mortal);
  await ledger.moveClock(MINUTE + 1);
  const expire = () => expireJobs(ledger.db.maintenance, 1_000);
  await whileHeld(held, async () => {
    expect(await expire()).toMatchObject({ expired: 1 });
    expect(await states([...held, free])).toEqual(['scheduled', 'retrying', 'pending', 'dead_letter']);
  });
  await ledger.moveClock(MINUTE + 1);
  expect(await expire()).toMatchObject({ expired: 3 });
  expect(await states(held)).toEqual(['dead_letter', 'dead_letter', 'dead_letter']);
});

test('a caller whose job is held waits alone and gets 503; the others get their answers', async () => {
  const canceller = new Canceller({ database: ledger.db, heldJobs: new HeldJobs({ database: ledger.db }), events: new EventHub() });
  const held = await ledger.submitOne();
  const free = await Promise.all([1, 2, 3].map(() => ledger.submitOne({ orgId: held.orgId })));
  const wanted = ({ orgId, id }: TestJob) => ({ orgId, projectId: null, id, reason: null, actor: null, force: false });
  await whileHeld([held], async () => {
    const order: string[] = [];
    const refused = canceller
      .cancel(wanted(held))
      .catch((error: unknown) => error)
      .finally(() => order.push('held'));
    const answers = await Promise.all(free.map((job) => canceller.cancel(wanted(job)).finally(() => order.push('free'))));
    expect(answers.map(({ kind }) => kind)).toEqual(['cancelled', 'cancelled', 'cancelled']);
    expect(await refused).toMatchObject({ code: 'UNAVAILABLE', retryAfterMs: 1_000, cause: { code: '55P03' } });
    expect(order).toEqual(['free', 'free', 'free', 'held']);
  });
  expect(await canceller.cancel(wanted(held))).toMatchObject({ kind: 'cancelled', previousState: 'scheduled' });
});

test('a caller that names many jobs has the free ones cancelled although one is held', async () => {
  const canceller = new Canceller({ database: ledger.db, heldJobs: new HeldJobs({ database: ledger.db }), events: new EventHub() });
  const jobs = [await ledger.submitOne()];
  jobs.push(await ledger.submitOne({ orgId: jobs[0]?.orgId as string }));
  const [held, free] = jobs as [TestJob, TestJob];
  const { orgId } = held;
  const asked = { orgId, projectId: null, ids: [held.id, crypto.randomUUID(), free.id], reason: null, actor: null, force: false };
  await whileHeld([held], async () => {
    await expect(canceller.cancelMany(asked)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryAfterMs: 1_000 });
    expect(await states([held, free])).toEqual(['scheduled', 'cancelled']);
  });
  const answers = await canceller.cancelMany(asked);
  expect(answers.map(({ kind }) => kind)).toEqual(['cancelled', 'not_found', 'already_final']);
});

test('callers who change a held job take few connections, and get 503', async () => {
  const heldJobs = new HeldJobs({ database: ledger.db });
  const [held, free] = [await ledger.submitOne(), await ledger.submitOne()];
  const change = ({ orgId, id }: TestJob) =>
    heldJobs.run((client) => updateJob(client, { projectId: null, orgId, id, change: { priority: 0 } })).catch((error: unknown) => error);
  await whileHeld([held], async () => {
    const refused = Promise.all(Array.from({ length: 30 }, () => change(held)));
    let isOver = false;
    void refused.then(() => {
      isOver = true;
    });
    // On a machine that stands still, all of them may have been refused before anybody could look.
    await until('somebody waits for the job', async () => isOver || (await isBlocked()));
    expect(await change(free)).toEqual({ kind: 'updated' });
    const refusals = await refused;
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'UNAVAILABLE', retryAfterMs: 1_000 });
  });
  expect(await change(held)).toEqual({ kind: 'updated' });
});
