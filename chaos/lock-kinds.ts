/** The locks that a user's transaction can take, and what then runs into each of them. */
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { configureQueue } from '../src/ledger/queues/queues.ts';
import { cancelJob } from '../src/services/jobs/cancel-job.ts';
import { updateJob } from '../src/services/jobs/update-job.ts';
import { ScheduleControls } from '../src/services/schedules/schedule-controls.ts';
import { openTransaction, type Stage } from './lock-stage.ts';

export type Release = () => Promise<unknown>;

export type LockKind = {
  readonly name: string;
  /** What takes too long to do once the operations are prepared. */
  prepare?(stage: Stage): Promise<void>;
  /** Resolves when the lock is held, and something has begun to run into it. */
  hold(stage: Stage): Promise<Release>;
};

/** So many locked jobs that every process has one of them in its loops. */
const DEPENDENCIES = 6;
const STAGGER_MS = 150;
const DUE_MS = 500;
const POKE_EVERY_MS = 200;
/** Of the main worker and of the other one. */
const PAUSED_QUEUES = ['held', 'other-held'];

/** Repeats an operation that waits for the lock, as impatient callers do. Returns a function that stops it. */
function poke(work: () => Promise<unknown>): () => void {
  const again = () => void work().catch(() => {});
  again();
  const timer = setInterval(again, POKE_EVERY_MS);
  return () => clearInterval(timer);
}

const inTransaction = (stage: Stage, work: (client: pg.Client) => Promise<unknown>) => openTransaction(stage.database.url, work);

const dependOn = (stage: Stage, dependsOn: readonly string[]) =>
  inTransaction(stage, (client) => stage.submit(stage.orgs.user, { type: 'probe', dependsOn }, client));

const times = <T>(make: (no: number) => T): T[] => Array.from({ length: DEPENDENCIES }, (_, no) => make(no));

const isEven = (no: number): boolean => no % 2 === 0;

function openInTurn(stage: Stage, gates: readonly string[]): void {
  for (const [no, gate] of gates.entries()) setTimeout(() => stage.openGate(gate), no * STAGGER_MS);
}

const plain: LockKind = {
  name: 'submit in a transaction',
  hold: (stage) => inTransaction(stage, (client) => stage.submit(stage.orgs.user, { type: 'probe' }, client)),
};

const scheduledDependency: LockKind = {
  name: 'dependency: scheduled',
  async prepare({ database }) {
    for (const name of PAUSED_QUEUES) await configureQueue(database.api, { name, paused: true });
  },
  async hold(stage) {
    const { engine, orgs, database } = stage;
    const jobs = times((no) => ({ type: 'probe', payload: {}, queue: isEven(no) ? 'held' : 'other-held' }));
    const release = await dependOn(stage, await stage.submitAll(orgs.user, jobs));
    for (const name of PAUSED_QUEUES) await configureQueue(database.api, { name, paused: false });
    engine.hint('ready');
    return release;
  },
};

function runningDependency({ name, fails }: { name: string; fails: boolean }): LockKind {
  return {
    name,
    async hold(stage) {
      const gates = times(() => randomUUID());
      const jobs = gates.map((gate, no) => ({
        type: 'gate',
        payload: { gate, fails },
        queue: isEven(no) ? 'q:default' : 'other',
      }));
      const ids = await stage.submitAll(stage.orgs.user, jobs);
      await Promise.all(ids.map((id) => stage.signals.until(`${id} started`)));
      const release = await dependOn(stage, ids);
      openInTurn(stage, gates);
      return release;
    },
  };
}

const delayedDependency: LockKind = {
  name: 'dependency: delayed',
  async hold(stage) {
    const jobs = times((no) => ({ type: 'probe', payload: {}, delay: `${DUE_MS + no * STAGGER_MS}ms` }));
    return dependOn(stage, await stage.submitAll(stage.orgs.user, jobs));
  },
};

const retryingDependency: LockKind = {
  name: 'dependency: retrying',
  async hold(stage) {
    const jobs = times((no) => {
      const initialDelay = `${DUE_MS + no * STAGGER_MS}ms`;
      return { type: 'retries', payload: {}, backoff: { strategy: 'CONSTANT', initialDelay, jitter: false } as const };
    });
    const ids = await stage.submitAll(stage.orgs.user, jobs);
    await Promise.all(ids.map((id) => stage.states.until(id, ['retrying'])));
    return dependOn(stage, ids);
  },
};

/** Jobs that wait for other jobs, which end while the lock is held. */
const pendingDependency: LockKind = {
  name: 'dependency: pending',
  async hold(stage) {
    const { user } = stage.orgs;
    const gates = times(() => randomUUID());
    const first = await stage.submitAll(
      user,
      gates.map((gate) => ({ type: 'gate', payload: { gate, fails: false } })),
    );
    const second = await stage.submitAll(
      user,
      first.map((id) => ({ type: 'probe', payload: {}, dependsOn: [id] })),
    );
    const release = await dependOn(stage, second);
    openInTurn(stage, gates);
    return release;
  },
};

/** Jobs whose handlers have returned and whose children end while the lock is held. */
const joiningDependency: LockKind = {
  name: 'dependency: waits for children',
  async hold(stage) {
    const gates = times(() => randomUUID());
    const jobs = gates.map((gate) => ({ type: 'parent', payload: { gate, fails: false } }));
    const ids = await stage.submitAll(stage.orgs.user, jobs);
    await Promise.all(ids.map((id) => stage.signals.until(`${id} returned`)));
    const release = await dependOn(stage, ids);
    openInTurn(stage, gates);
    return release;
  },
};

const expiringDependency: LockKind = {
  name: 'dependency: outlives its lifetime',
  async hold(stage) {
    const jobs = times(() => ({ type: 'mortal', payload: {}, queue: 'unserved' }));
    return dependOn(stage, await stage.submitAll(stage.orgs.user, jobs));
  },
};

/** Its worker has a lower id than the one whose rescue is measured, so that its jobs come first. */
function orphanedDependency(): LockKind {
  let doomed: Awaited<ReturnType<Stage['hireDoomed']>>;
  return {
    name: 'dependency: of a killed worker',
    async prepare(stage) {
      doomed = await stage.hireDoomed(stage.orgs.user);
    },
    async hold(stage) {
      const release = await dependOn(stage, [doomed.jobId]);
      await stage.kill(doomed.worker);
      return release;
    },
  };
}

const key: LockKind = {
  name: 'idempotency key',
  async hold(stage) {
    const submission = { type: 'probe', idempotencyKey: randomUUID() };
    const release = await inTransaction(stage, (client) => stage.submit(stage.orgs.user, submission, client));
    const stop = poke(() => stage.submit(stage.orgs.user, submission));
    return () => release().finally(stop);
  },
};

const manyKeys: LockKind = {
  name: '1 000 idempotency keys',
  async hold(stage) {
    const { user } = stage.orgs;
    const jobs = Array.from({ length: 1_000 }, () => ({ type: 'probe', payload: {}, idempotencyKey: randomUUID() }));
    const release = await inTransaction(stage, (client) => stage.submitAll(user, jobs, client));
    let next = 0;
    const stop = poke(async () => {
      const some = jobs.slice(next, next + 10);
      next += 10;
      await Promise.all([stage.submitAll(user, some.slice(5)), ...some.slice(0, 5).map((job) => stage.submit(user, job))]);
    });
    return () => release().finally(stop);
  },
};

const fairQueue: LockKind = {
  name: 'fair queue',
  async hold(stage) {
    const submission = { type: 'probe', queue: 'fair' };
    const release = await inTransaction(stage, (client) => stage.submit(stage.orgs.user, submission, client));
    const stop = poke(() => stage.submit(stage.orgs.user, submission));
    return () => release().finally(stop);
  },
};

type OwnParams = { how: 'assertOwned' | 'completeIn'; returnsEarly?: boolean; timeout?: string };

/** A transaction inside a handler, while others try to cancel and to change its job. */
async function ownJob(stage: Stage, { how, returnsEarly = false, timeout }: OwnParams): Promise<Release> {
  const { engine } = stage;
  const orgId = stage.orgs.user;
  const gate = randomUUID();
  const { jobId } = await stage.submit(orgId, { type: 'owner', payload: { gate, how, returnsEarly }, timeout });
  await stage.signals.until(`${jobId} held`);
  const stop = poke(() =>
    Promise.all([
      cancelJob(engine, { projectId: null, orgId, id: jobId, reason: null, force: false, actor: null }),
      updateJob(engine, { projectId: null, orgId, id: jobId, update: { tags: { seen: randomUUID() } } }),
    ]),
  );
  return async () => {
    stop();
    stage.openGate(gate);
    await stage.signals.until(`${jobId} released`);
  };
}

/** The keys that a schedule of the user is about to use. */
const scheduleKey: LockKind = {
  name: 'key of a schedule',
  async hold(stage) {
    const orgId = stage.orgs.user;
    const submission = { type: 'tick', payload: {} };
    const soonMs = Math.ceil(Date.now() / 1_000) * 1_000;
    const jobs = Array.from({ length: 10 }, (_, no) => {
      const due = new Date(soonMs + no * 1_000).toISOString();
      return { ...submission, idempotencyKey: `schedule:rush:${due}` };
    });
    const release = await inTransaction(stage, (client) => stage.submitAll(orgId, jobs, client));
    const schedules = new ScheduleControls(stage.engine, orgId);
    await schedules.put('rush', { cron: '* * * * * *', missed: 'all', submission });
    return async () => {
      await release();
      await schedules.remove('rush');
    };
  },
};

export const LOCK_KINDS: readonly LockKind[] = [
  plain,
  scheduledDependency,
  runningDependency({ name: 'dependency: running, completes', fails: false }),
  runningDependency({ name: 'dependency: running, fails', fails: true }),
  delayedDependency,
  retryingDependency,
  pendingDependency,
  joiningDependency,
  expiringDependency,
  orphanedDependency(),
  key,
  manyKeys,
  fairQueue,
  { name: 'assertOwned', hold: (stage) => ownJob(stage, { how: 'assertOwned' }) },
  { name: 'assertOwned, times out', hold: (stage) => ownJob(stage, { how: 'assertOwned', timeout: '300ms' }) },
  { name: 'assertOwned, returns early', hold: (stage) => ownJob(stage, { how: 'assertOwned', returnsEarly: true }) },
  { name: 'completeIn', hold: (stage) => ownJob(stage, { how: 'completeIn' }) },
  { name: 'completeIn, returns early', hold: (stage) => ownJob(stage, { how: 'completeIn', returnsEarly: true }) },
  scheduleKey,
];
