import type pg from 'pg';
import { expect, test } from 'vitest';
import { cancelJobs } from '../../src/ledger/cancel-jobs.ts';
import { completeJobs } from '../../src/ledger/complete-jobs.ts';
import { lockDependencies } from '../../src/ledger/lock-dependencies.ts';
import { releaseDependents } from '../../src/ledger/release-dependents.ts';
import { settleJobs } from '../../src/ledger/settle-jobs.ts';
import { type LeasedTestJob, settled, type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const SUCCESS = { to: 'completed', reason: 'succeeded' } as const;
const MET = 'pending>scheduled:dependencies_met';

const release = () => releaseDependents(ledger.db.maintenance, 100);

async function drain(): Promise<void> {
  while ((await release()).consumed > 0);
}

const complete = (client: pg.PoolClient | pg.Pool, job: LeasedTestJob) =>
  settleJobs(client, { workerId: job.workerId, jobs: [settled(job, SUCCESS)], by: 'lease', closedClaims: [] });

/** Runs `meanwhile` in the middle of an open transaction that `begin` wrote in. */
async function interleave<T>(
  begin: (client: pg.PoolClient) => Promise<unknown>,
  meanwhile: () => Promise<T>,
): Promise<T> {
  const client = await ledger.db.api.connect();
  try {
    await client.query('BEGIN');
    await begin(client);
    const result = await meanwhile();
    await client.query('COMMIT');
    return result;
  } finally {
    client.release();
  }
}

const hold = (job: TestJob) => (client: pg.PoolClient) =>
  client.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [job.id]);

/** A job that waits for two others, which run. */
async function twoAndOne() {
  const first = await ledger.start(await ledger.submitOne());
  const second = await ledger.start(await ledger.submitOne({ orgId: first.orgId }));
  const job = await ledger.submitOne({ orgId: first.orgId, dependsOn: [first, second] });
  return { first, second, job };
}

test('a dependency that ends during the submission of its dependent waits and then wakes it [GM-6.13]', async () => {
  const first = await ledger.start(await ledger.submitOne());
  let ending: Promise<unknown> = Promise.resolve();
  let job: TestJob | undefined;
  await interleave(
    async (client) => {
      job = await ledger.submitOneOn(client, { orgId: first.orgId, dependsOn: [first] });
    },
    async () => {
      ending = complete(ledger.db.workers, first);
      await ledger.untilBlocked();
    },
  );
  expect(await ending).toMatchObject({ released: true });
  await drain();
  expect((await ledger.pathOf(job!)).at(-1)).toBe(MET);
});

test('the hot path, too, sees a dependent that was submitted while it waited', async () => {
  const first = await ledger.start(await ledger.submitOne());
  const finished = [{ orgId: first.orgId, seq: first.seq, leaseSeq: first.leaseSeq, result: null }];
  const params = { workerId: first.workerId, finished, closedClaims: [] };
  let ending: ReturnType<typeof completeJobs> | undefined;
  await interleave(
    (client) => ledger.submitOneOn(client, { orgId: first.orgId, dependsOn: [first] }),
    async () => {
      ending = completeJobs(ledger.db.workers, params);
      await ledger.untilBlocked();
    },
  );
  expect(await ending).toMatchObject({ released: true, landed: new Set([first.leaseSeq]) });
  expect(await ledger.tokensOf(first, 'releases')).toBe(1);
  await drain();
});

test('a submission that comes second to the end of its dependency is told of the end', async () => {
  const first = await ledger.start(await ledger.submitOne());
  const ids = [first.id];
  let locking: ReturnType<typeof lockDependencies> | undefined;
  await interleave(
    (client) => complete(client, first),
    async () => {
      locking = lockDependencies(ledger.db.api, { orgId: first.orgId, ids });
      await ledger.untilBlocked();
    },
  );
  expect(await locking).toMatchObject([{ state: 'completed' }]);
  expect((await ledger.rowOf(first)).has_dependents).toBe(false);
});

test('a dependency whose end is not committed yet wakes the dependent later [GM-6.01]', async () => {
  const { first, second, job } = await twoAndOne();
  await complete(ledger.db.workers, first);
  await interleave((client) => complete(client, second), drain);
  expect(await ledger.stateOf(job)).toBe('pending');
  await drain();
  expect((await ledger.pathOf(job)).at(-1)).toBe(MET);
});

test('a sibling that ends while a release is under way is seen, and the dependent is woken once [GM-6.01]', async () => {
  const { first, second, job } = await twoAndOne();
  await complete(ledger.db.workers, first);
  const releasing: Promise<unknown>[] = [];
  await interleave(hold(job), async () => {
    releasing.push(release());
    await ledger.untilBlocked();
    await complete(ledger.db.workers, second);
    releasing.push(release());
  });
  await Promise.all(releasing);
  await drain();
  expect(await ledger.pathOf(job)).toEqual(['>pending:submitted', MET]);
  expect(await ledger.tokensOf(job, 'ready')).toBe(1);
});

test('a releaser that dies in the middle leaves its releases to the next', async () => {
  const { first, second, job } = await twoAndOne();
  await complete(ledger.db.workers, first);
  await complete(ledger.db.workers, second);
  await interleave(hold(job), async () => {
    const dying = expect(release()).rejects.toMatchObject({ code: 'UNAVAILABLE', cause: { code: '57014' } });
    await ledger.untilBlocked();
    await ledger.db.workers.query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
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
  let releasing: Promise<unknown> = Promise.resolve();
  await interleave(
    (client) => cancelJobs(client, { orgId: job.orgId, ids: [job.id], reason: null, actor: null, force: false }),
    async () => {
      releasing = release();
      await ledger.untilBlocked();
    },
  );
  await releasing;
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
  for (const job of jobs) expect(await ledger.pathOf(job)).toEqual(['>pending:submitted', MET]);
});
