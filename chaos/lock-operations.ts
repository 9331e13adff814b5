/** What strangers do while a user's transaction holds a lock. Each probe returns how long the stranger waited, in milliseconds. */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { JobState } from '../src/core/states.ts';
import { cancelJob } from '../src/services/jobs/cancel-job.ts';
import { retryJob } from '../src/services/jobs/retry-job.ts';
import { updateJob } from '../src/services/jobs/update-job.ts';
import { waitForJob } from '../src/services/jobs/wait-for-job.ts';
import { nowMs, type Stage } from './lock-stage.ts';

export type Operation = {
  readonly name: string;
  /** One word for the head of the table. */
  readonly head: string;
  /** How long it may take when nothing is locked, because its loop polls. */
  readonly naturalMs?: number;
  /** One probe while the lock is held, instead of one after the other. */
  readonly once?: boolean;
  /** Shown but not judged. */
  readonly isInformative?: boolean;
  probe(stage: Stage): Promise<number>;
};

/** The rescuer's poll after the lease of a job has ended. */
const RESCUE_MS = 2_100;
const EXPIRY_MS = 150;
const CRON_POLL_MS = 500;
const WAIT_POLL_MS = 100;
const DELAY_MS = 100;
const MORTAL_MS = 700;

type Asked = Parameters<Stage['submit']>[1];

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = nowMs();
  await work();
  return nowMs() - startedMs;
}

const submits = (asked: () => Asked) => (stage: Stage) => timed(() => stage.submit(stage.orgs.stranger, asked()));

/** From the submission's return to the start of the handler. */
const starts = (queue: string) => async (stage: Stage) => {
  const { jobId } = await stage.apart.submit({ type: 'probe', payload: {}, queue });
  const acceptedMs = nowMs();
  return Math.max(0, (await stage.signals.until(`${jobId} started`)) - acceptedMs);
};

/** From the handler's return to the job's new state. */
const ends =
  (type: string, states: readonly JobState[], more: Partial<Asked> = {}) =>
  async (stage: Stage) => {
    const { jobId } = await stage.apart.submit({ type, payload: {}, ...more });
    const reached = stage.states.until(jobId, states);
    const returnedMs = await stage.signals.until(`${jobId} returned`);
    return Math.max(0, (await reached) - returnedMs);
  };

const reports = (type: string, word: string) => async (stage: Stage) => {
  const { jobId } = await stage.apart.submit({ type, payload: {} });
  return stage.signals.until(`${jobId} ${word}`);
};

async function delayedStart(stage: Stage): Promise<number> {
  const { jobId, scheduledFor } = await stage.apart.submit({ type: 'probe', payload: {}, delay: `${DELAY_MS}ms` });
  return (await stage.signals.until(`${jobId} started`)) - Number(scheduledFor);
}

async function releasedStart(stage: Stage): Promise<number> {
  const first = await stage.apart.submit({ type: 'probe', payload: {}, delay: `${DELAY_MS}ms` });
  const second = await stage.apart.submit({ type: 'probe', payload: {}, dependsOn: [first.jobId] });
  const returnedMs = await stage.signals.until(`${first.jobId} returned`);
  return (await stage.signals.until(`${second.jobId} started`)) - returnedMs;
}

/** From the end of its lifetime to the end of a job that no worker serves. */
async function expiry(stage: Stage): Promise<number> {
  const { jobId, createdAt } = await stage.apart.submit({ type: 'mortal', payload: {}, queue: 'unserved' });
  const endedMs = await stage.states.until(jobId, ['dead_letter']);
  return endedMs - createdAt.getTime() - MORTAL_MS;
}

async function rescue(stage: Stage): Promise<number> {
  if (stage.doomed === null) throw new Error('no worker is there to be killed');
  const { worker, jobId } = stage.doomed;
  const startedMs = nowMs();
  await stage.kill(worker);
  return (await stage.states.until(jobId, ['scheduled', 'retrying', 'dead_letter', 'failed'])) - startedMs;
}

async function cancel(stage: Stage): Promise<number> {
  const id = stage.spare.delayed.pop();
  if (id === undefined) throw new Error('no delayed job is left to cancel');
  const asked = { orgId: stage.orgs.stranger, reason: null, force: false, actor: null };
  return timed(() => cancelJob(stage.engine, { projectId: null, ...asked, id }));
}

async function retry(stage: Stage): Promise<number> {
  const id = stage.spare.failed.pop();
  if (id === undefined) throw new Error('no failed job is left to retry');
  const asked = { orgId: stage.orgs.stranger, resetAttempts: false, actor: null };
  return timed(() => retryJob(stage.engine, { projectId: null, ...asked, id }));
}

async function patch(stage: Stage): Promise<number> {
  const id = stage.spare.delayed[0];
  if (id === undefined) throw new Error('no delayed job is left to change');
  const asked = { orgId: stage.orgs.stranger, update: { tags: { seen: String(nowMs()) } } };
  return timed(() => updateJob(stage.engine, { projectId: null, ...asked, id }));
}

/** From a second of the schedule to the start of its job. */
async function cronTick(stage: Stage): Promise<number> {
  const due = new Date(Math.ceil(Date.now() / 1_000) * 1_000);
  return (await stage.signals.until(`schedule:stranger:${due.toISOString()}`)) - due.getTime();
}

async function waitFor(stage: Stage): Promise<number> {
  const { jobId } = await stage.apart.submit({ type: 'probe', payload: {} });
  await waitForJob(stage.engine, { orgId: stage.orgs.stranger, id: jobId, timeoutMs: null });
  const endedMs = nowMs();
  return endedMs - (await stage.signals.until(`${jobId} returned`));
}

async function webhook(stage: Stage): Promise<number> {
  const { jobId } = await stage.submit(stage.orgs.listener, { type: 'probe' });
  await stage.receiver.until((received) => received.some(({ body }) => body.includes(jobId)));
  const arrivedMs = nowMs();
  return arrivedMs - (await stage.signals.until(`${jobId} returned`));
}

/** What the machine itself delays: a timer, and a commit on a connection that shares nothing with the product. */
async function machine(stage: Stage): Promise<number> {
  const lateMs = (await timed(() => delay(50))) - 50;
  const client = new pg.Client(stage.database.url);
  await client.connect();
  const work = () => client.query('CREATE TABLE IF NOT EXISTS noise (); DROP TABLE noise');
  const committedMs = await timed(work).finally(() => client.end());
  return Math.max(lateMs, committedMs);
}

let keys = 0;

export const OPERATIONS: readonly Operation[] = [
  { name: 'submit a job', head: 'submit', probe: submits(() => ({ type: 'probe' })) },
  {
    name: 'submit a job with a key',
    head: 'keyed',
    probe: submits(() => ({ type: 'probe', idempotencyKey: `stranger-${keys++}` })),
  },
  { name: 'submit to the fair queue', head: 'fair', probe: submits(() => ({ type: 'probe', queue: 'fair' })) },
  {
    name: 'submit a batch',
    head: 'batch',
    probe: (stage) =>
      timed(() => {
        const jobs = Array.from({ length: 20 }, () => ({ type: 'probe', payload: {} }));
        return stage.submitAll(stage.orgs.stranger, jobs);
      }),
  },
  { name: 'start in the same worker', head: 'claim', probe: starts('q:default') },
  { name: 'start in another worker', head: 'elsewhere', probe: starts('other') },
  { name: 'start from the fair queue', head: 'fair claim', probe: starts('fair') },
  { name: 'record a success', head: 'success', probe: ends('probe', ['completed']) },
  { name: 'record a failure', head: 'failure', probe: ends('fails', ['failed']) },
  {
    name: 'record an attempt that is retried',
    head: 'retried',
    probe: ends('retries', ['retrying'], { backoff: { strategy: 'CONSTANT', initialDelay: '1s', jitter: false } }),
  },
  { name: 'start a delayed job', head: 'delayed', probe: delayedStart },
  { name: 'start a dependent', head: 'dependent', probe: releasedStart },
  { name: 'end a job that outlived its lifetime', head: 'expiry', naturalMs: EXPIRY_MS, probe: expiry },
  { name: 'rescue the jobs of a killed worker', head: 'rescue', naturalMs: RESCUE_MS, once: true, probe: rescue },
  { name: 'cancel a job', head: 'cancel', probe: cancel },
  { name: 'retry a job by hand', head: 'retry', probe: retry },
  { name: 'change a job', head: 'patch', probe: patch },
  { name: 'fire a schedule', head: 'cron', naturalMs: CRON_POLL_MS, probe: cronTick },
  { name: 'wait for a job', head: 'waitFor', naturalMs: WAIT_POLL_MS, probe: waitFor },
  { name: 'report progress', head: 'progress', probe: reports('progress', 'progress') },
  { name: 'spawn a child', head: 'spawn', probe: reports('spawns', 'spawned') },
  // Events are read below the oldest open transaction, so that none is skipped: any open transaction that writes delays them.
  { name: 'deliver an event', head: 'webhook', isInformative: true, probe: webhook },
  { name: 'the machine itself', head: 'machine', isInformative: true, probe: machine },
];
