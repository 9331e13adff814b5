import type pg from 'pg';
import { expect, test } from 'vitest';
import { completeJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type LeasedTestJob, settled, type TestJob, useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';

const ledger = useLedger();
useLockPatience(ledger);
const SUCCESS = { to: 'completed', reason: 'succeeded' } as const;
const MET = 'pending>scheduled:dependencies_met';

const release = () => releaseDependents(ledger.db.maintenance, 100);

async function drain(): Promise<void> {
  while ((await release()).consumed > 0);
}

/** Also what was put off because somebody else held it. */
async function drainLater(): Promise<void> {
  await ledger.db.api.query(`UPDATE millrace.releases SET due_at = '-infinity'`);
  await drain();
}

const complete = (client: pg.PoolClient | pg.Pool, job: LeasedTestJob) =>
  settleJobs(client, { workerId: job.workerId, jobs: [settled(job, SUCCESS)], by: 'handler', closedClaims: [] });

/** Runs `meanwhile` in the middle of an open transaction that `begin` wrote in. */
async function interleave<B, T>(begin: (client: pg.PoolClient) => Promise<B>, meanwhile: (begun: B) => Promise<T>): Promise<T> {
  const client = await ledger.db.api.connect();
  try {
    await client.query('BEGIN');
    const result = await meanwhile(await begin(client));
    await client.query('COMMIT');
    return result;
  } finally {
    client.release();
  }
}

const hold = (job: TestJob) => (client: pg.PoolClient) => client.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [job.id]);

/** A job that waits for two others, which run. */
async function twoAndOne() {
  const first = await ledger.start(await ledger.submitOne());
  const second = await ledger.start(await ledger.submitOne({ orgId: first.orgId }));
  const job = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first, second] });
  return { first, second, job };
}

test('a dependency that ends during the submission of its dependent does not wait, and wakes it [GM-6.13]', async () => {
  const first = await ledger.start(await ledger.submitOne());
  let job: TestJob | undefined;
  await interleave(
    async (client) => {
      job = await ledger.submitOneOn(client, { orgId: first.orgId, dependsOn: [first] });
    },
    async () => {
      expect(await complete(ledger.db.workers, first)).toMatchObject({ landed: new Set([first.leaseSeq]) });
      await drain();
    },
  );
  expect(await ledger.stateOf(job!)).toBe('pending');
  await drain();
  expect((await ledger.pathOf(job!)).at(-1)).toBe(MET);
});

test('the fast completion also ends a dependency during a submission, and the dependent wakes', async () => {
  const first = await ledger.start(await ledger.submitOne());
  const finished = [{ orgId: first.orgId, seq: first.seq, leaseSeq: first.leaseSeq, result: null }];
  const params = { workerId: first.workerId, finished, closedClaims: [] };
  const job = await interleave(
    (client) => ledger.submitOneOn(client, { orgId: first.orgId, dependsOn: [first] }),
    async (dependent) => {
      expect(await completeJobs(ledger.db.workers, params)).toMatchObject({ landed: new Set([first.leaseSeq]) });
      return dependent;
    },
  );
  await drain();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a submission does not wait for an end that is not committed yet, and sees it afterwards', async () => {
  const first = await ledger.start(await ledger.submitOne());
  const job = await interleave(
    (client) => complete(client, first),
    () => ledger.submitOne({ orgId: first.orgId, dependsOn: [first] }),
  );
  expect(await ledger.stateOf(job)).toBe('pending');
  await drain();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a dependency whose end is not committed when its dependent comes is not marked and not forgotten', async () => {
  const first = await ledger.start(await ledger.submitOne());
  const job = await interleave(
    (client) => complete(client, first),
    async () => {
      const dependent = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first] });
      expect(await release()).toMatchObject({ consumed: 0, putOff: true });
      expect(await ledger.tokensOf(dependent, 'releases')).toBe(1);
      return dependent;
    },
  );
  await drainLater();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a dependency whose end is not committed yet wakes the dependent later [GM-6.01]', async () => {
  const { first, second, job } = await twoAndOne();
  await complete(ledger.db.workers, first);
  await interleave((client) => complete(client, second), drain);
  expect(await ledger.stateOf(job)).toBe('pending');
  await drainLater();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a dependent that somebody holds is looked at later, and is woken once by two ends [GM-6.01]', async () => {
  const { first, second, job } = await twoAndOne();
  await drain();
  await complete(ledger.db.workers, first);
  await interleave(hold(job), async () => {
    expect(await release()).toMatchObject({ consumed: 1, putOff: true });
    // It would be due again in a tenth of a second.
    await ledger.db.api.query(`UPDATE millrace.releases SET due_at = 'infinity'`);
    await complete(ledger.db.workers, second);
    expect(await release()).toMatchObject({ consumed: 1, putOff: true });
  });
  expect(await ledger.tokensOf(job, 'releases')).toBe(2);
  await drainLater();
  expect(await ledger.pathOf(job)).toEqual(['>pending:submitted', MET]);
  expect(await ledger.tokensOf(job, 'ready')).toBe(1);
});

test('a dependent that somebody holds is looked at less and less often', async () => {
  const { first, second, job } = await twoAndOne();
  await drain();
  await complete(ledger.db.workers, first);
  await complete(ledger.db.workers, second);
  const putOff = async () => {
    const { rows } = await ledger.db.api.query('SELECT failures, due_at FROM millrace.releases');
    await ledger.db.api.query(`UPDATE millrace.releases SET due_at = '-infinity'`);
    return rows;
  };
  await interleave(hold(job), async () => {
    const waits: number[] = [];
    for (let failures = 1; failures <= 12; failures++) {
      const before = Date.now();
      await release();
      const [row, ...others] = await putOff();
      expect([row.failures, others]).toEqual([failures, []]);
      waits.push(Number(row.due_at) - before);
    }
    expect(waits[11]).toBeGreaterThan(waits[6] as number);
    expect(waits[6]).toBeGreaterThan(waits[0] as number);
  });
  await drainLater();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a releaser that dies in the middle leaves its releases to the next', async () => {
  const { first, second, job } = await twoAndOne();
  await drain();
  await complete(ledger.db.workers, first);
  await complete(ledger.db.workers, second);
  const block = (client: pg.PoolClient) => client.query('LOCK TABLE millrace.waiting');
  await interleave(block, async () => {
    const dying = expect(release()).rejects.toMatchObject({ code: 'UNAVAILABLE', cause: { code: '57P01' } });
    await ledger.untilBlocked();
    await ledger.db.workers.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`);
    await dying;
  });
  expect(await ledger.stateOf(job)).toBe('pending');
  await drain();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a dependent that is cancelled while its release is under way stays cancelled', async () => {
  const { first, second, job } = await twoAndOne();
  await complete(ledger.db.workers, first);
  await complete(ledger.db.workers, second);
  await interleave(
    (client) => cancelJobs(client, { projectId: null, orgId: job.orgId, ids: [job.id], reason: null, actor: null, force: false }),
    release,
  );
  await drainLater();
  expect((await ledger.pathOf(job)).at(-1)).toBe('pending>cancelled:cancelled');
});

test('several releasers at once wake every dependent of a wide graph once', async () => {
  const first = await ledger.submitOne();
  const { orgId } = first;
  const sources = [first, ...(await Promise.all(Array.from({ length: 9 }, () => ledger.submitOne({ orgId }))))];
  const jobs: TestJob[] = [];
  for (let count = 0; count < 10; count++) jobs.push(await ledger.submitOne({ orgId, dependsOn: sources }));
  await Promise.all(
    sources.map(async (source) => {
      await complete(ledger.db.workers, await ledger.start(source));
      await releaseDependents(ledger.db.maintenance, 3);
    }),
  );
  await drain();
  await drainLater();
  for (const job of jobs) expect(await ledger.pathOf(job)).toEqual(['>pending:submitted', MET]);
});

test('submissions, ends and releasers at the same time lose no wake-up', async () => {
  const first = await ledger.submitOne();
  const { orgId } = first;
  const sources = [first];
  for (let count = 1; count < 20; count++) sources.push(await ledger.submitOne({ orgId }));
  const started = await Promise.all(sources.map((source) => ledger.start(source)));
  const jobs: TestJob[] = [];
  await Promise.all([
    ...started.map((job) => complete(ledger.db.workers, job)),
    ...sources.map(async (source, index) => {
      const other = sources[(index * 7 + 3) % sources.length] as TestJob;
      jobs.push(await ledger.submitOne({ orgId, dependsOn: source === other ? [source] : [source, other] }));
    }),
    ...Array.from({ length: 10 }, () => release()),
  ]);
  await drainLater();
  await drainLater();
  expect(jobs).toHaveLength(20);
  for (const job of jobs) expect(await ledger.stateOf(job)).toBe('scheduled');
});
