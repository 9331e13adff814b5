/** What chaos/held-locks.ts measures: one database, two worker processes, and an API process that serves a user and strangers. */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { loadConfig } from '../src/config/load-config.ts';
import type { Submission } from '../src/core/submission.ts';
import type { Engine } from '../src/engine/engine.ts';
import { Millrace } from '../src/index.ts';
import { type Database, openDatabase } from '../src/ledger/driver/database.ts';
import { migrate } from '../src/ledger/driver/migrate.ts';
import { configureQueue } from '../src/ledger/queues/queues.ts';
import { insertWebhook } from '../src/ledger/webhooks/webhooks.ts';
import { composeDeliveries, openEgress } from '../src/platform/deliveries.ts';
import { createOrg } from '../src/services/access/create-org.ts';
import { createEngine } from '../src/services/jobs/create-engine.ts';
import { submitJob } from '../src/services/jobs/submit-job.ts';
import { submitMany } from '../src/services/jobs/submit-many.ts';
import { ScheduleControls } from '../src/services/schedules/schedule-controls.ts';
import { openReceiver, type Receiver } from '../src/simulator/webhook-receiver.ts';
import { JobStates } from './job-states.ts';
import type { GateOpening, LockWorkerSettings, WorkerReport } from './lock-worker.ts';
import { Signals } from './signals.ts';

/** The main worker serves these queues; a second worker process serves `other`. */
const MAIN_QUEUES = ['q:default', 'fair', 'held'];
const SLOTS = 16;
/** Only this process looks so often for jobs that outlived their lifetime; by default it is once a minute. */
const EXPIRE_EVERY_MS = 100;
/** Enough for the operations that use up a job with every probe. */
const SPARE_JOBS = 60;

export const nowMs = (): number => performance.timeOrigin + performance.now();

export class Stage {
  readonly engine: Engine;
  /** Submits jobs in a separate process, so that a wait after the submission is measured alone. */
  readonly apart: Millrace;
  readonly database: Database;
  readonly receiver: Receiver;
  /** The org whose transactions hold locks, the org whose waits are measured, and one with few jobs that has a webhook. */
  readonly orgs: { readonly user: string; readonly stranger: string; readonly listener: string };
  readonly signals = new Signals();
  readonly states: JobStates;
  /** Jobs of the stranger that failed, and jobs that are far from due. */
  readonly spare: { failed: string[]; delayed: string[] } = { failed: [], delayed: [] };
  readonly #workers: ChildProcess[] = [];
  readonly #stops: (() => Promise<unknown>)[] = [];
  /** A worker process that is about to be killed, and the job that it runs. */
  doomed: { worker: ChildProcess; jobId: string } | null = null;

  private constructor(parts: Pick<Stage, 'engine' | 'apart' | 'database' | 'receiver' | 'orgs' | 'states'>) {
    this.engine = parts.engine;
    this.apart = parts.apart;
    this.database = parts.database;
    this.receiver = parts.receiver;
    this.orgs = parts.orgs;
    this.states = parts.states;
  }

  static async open(url: string): Promise<Stage> {
    const database = openDatabase({ url });
    await migrate(database.maintenance);
    const { config } = loadConfig({ environment: { MILLRACE_EGRESS_ALLOW: '127.0.0.0/8' }, folder: tmpdir() });
    const engine = createEngine({ database, profile: config.profile, expireEveryMs: EXPIRE_EVERY_MS });
    const deliveries = composeDeliveries({ engine, config, egress: openEgress(config) });
    await engine.open();
    const orgs = {
      user: (await createOrg(database, { slug: 'user' })).id,
      stranger: (await createOrg(database, { slug: 'stranger' })).id,
      listener: (await createOrg(database, { slug: 'listener' })).id,
    };
    const receiver = await openReceiver();
    const states = await JobStates.open(url);
    const apart = await Millrace.open({ database: url, org: orgs.stranger });
    const stage = new Stage({ engine, apart, database, receiver, orgs, states });
    for (const name of ['fair', 'held', 'other', 'other-held', 'doomed', 'unserved']) await configureQueue(database.api, { name });
    await Promise.all([stage.hire({ name: 'main', queues: MAIN_QUEUES }), stage.hire({ name: 'other', queues: ['other', 'other-held'] })]);
    // Lets this process, which only submits, know the queues and the types that the workers have announced.
    await apart.queues.configure('fair', { order: 'fair' });
    await engine.start();
    await deliveries.start();
    stage.#stops.push(
      () => deliveries.stop(),
      () => apart.close(),
      () => engine.close(1_000),
      () => receiver.close(),
      () => states.close(),
      () => database.close(),
    );
    await stage.#setUpOthers();
    return stage;
  }

  submit(orgId: string, submission: Partial<Submission> & { type: string }, client?: pg.ClientBase) {
    return submitJob(this.engine, { orgId, submission: { payload: {}, ...submission }, actor: null, client });
  }

  async submitAll(orgId: string, submissions: readonly Submission[], client?: pg.ClientBase): Promise<string[]> {
    const { results } = await submitMany(this.engine, { orgId, submissions, atomic: true, actor: null, client });
    return results.map(({ jobId }) => jobId as string);
  }

  /** Starts a worker process and resolves when it works. */
  async hire({ name, queues }: { name: string; queues: string[] }): Promise<ChildProcess> {
    const settings: LockWorkerSettings = { url: this.database.url, name, queues, slots: SLOTS };
    const script = fileURLToPath(new URL('./lock-worker.ts', import.meta.url));
    const worker = fork(script, [JSON.stringify(settings)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.#workers.push(worker);
    const ready = Promise.withResolvers<void>();
    worker.on('message', ({ key, value }: WorkerReport) => {
      if (key === 'ready') ready.resolve();
      else this.signals.give(key, value);
    });
    worker.once('exit', (code, signal) => ready.reject(new Error(`worker ${name} ended with ${signal ?? code}`)));
    await ready.promise;
    return worker;
  }

  /** Lets handlers that wait at the gate continue, in every worker. */
  openGate(gate: string): void {
    for (const worker of this.#workers) if (worker.connected) worker.send({ gate } satisfies GateOpening);
  }

  async kill(worker: ChildProcess): Promise<void> {
    if (worker.exitCode !== null || worker.signalCode !== null) return;
    const gone = once(worker, 'exit');
    worker.kill('SIGKILL');
    await gone;
  }

  /** Hires a worker that will be killed, and gives it a job that hangs. */
  async hireDoomed(orgId: string): Promise<{ worker: ChildProcess; jobId: string }> {
    const worker = await this.hire({ name: 'doomed', queues: ['doomed'] });
    const payload = { gate: randomUUID(), fails: false };
    const { jobId } = await this.submit(orgId, { type: 'gate', payload, queue: 'doomed', maxAttempts: 1 });
    await this.signals.until(`${jobId} started`);
    return { worker, jobId };
  }

  /** Prepares the jobs that operations use up. */
  async replenish(): Promise<void> {
    const { stranger } = this.orgs;
    const missing = (ids: readonly string[]) => Array.from({ length: SPARE_JOBS - ids.length });
    const failing = missing(this.spare.failed).map(() => ({ type: 'fails', payload: {} }));
    const delayed = missing(this.spare.delayed).map(() => ({ type: 'probe', payload: {}, delay: '1h' }));
    if (failing.length > 0) this.spare.failed.push(...(await this.submitAll(stranger, failing)));
    if (delayed.length > 0) this.spare.delayed.push(...(await this.submitAll(stranger, delayed)));
    await Promise.all(this.spare.failed.map((id) => this.states.until(id, ['failed'])));
    this.doomed = await this.hireDoomed(stranger);
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) await this.kill(worker);
    for (const stop of this.#stops) await stop();
  }

  async #setUpOthers(): Promise<void> {
    const { stranger, listener } = this.orgs;
    await insertWebhook(this.database.api, listener, {
      id: randomUUID(),
      url: this.receiver.url('ok'),
      events: ['job.succeeded'],
      description: null,
      secret: randomBytes(24),
      createdAt: new Date(),
      atMost: 100,
    });
    const submission = { type: 'tick', payload: {} };
    await new ScheduleControls(this.engine, stranger).put('stranger', { cron: '* * * * * *', missed: 'all', submission });
  }
}

/** An open transaction on a connection that only it uses. Returns what ends it. */
export async function openTransaction(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<() => Promise<void>> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('BEGIN');
  await work(client);
  return async () => {
    await client.query('COMMIT');
    await client.end();
  };
}
