// A worker process of chaos/held-locks.ts. It runs the jobs that the run submits and reports to its parent when each handler starts and returns.
import pg from 'pg';
import { type JobContext, Millrace, PermanentError, TemporaryError } from '../src/index.ts';

/** A fact that the parent waits for: a time on the machine's clock, or a duration in milliseconds. */
export type WorkerReport = { key: string; value: number };
/** The parent opens a gate by its name, and every handler that waits at it continues. */
export type GateOpening = { gate: string };
export type LockWorkerSettings = { url: string; name: string; queues: string[]; slots: number };

/** How long a job of the type `mortal` may wait for its start. */
const MORTAL_LIFETIME = '700ms';

type GatePayload = { gate: string; fails: boolean };
type OwnerPayload = { gate: string; how: 'assertOwned' | 'completeIn'; returnsEarly: boolean };

const nowMs = (): number => performance.timeOrigin + performance.now();
const report = (key: string, value = nowMs()): void => void process.send?.({ key, value } satisfies WorkerReport);

const gates = new Map<string, PromiseWithResolvers<void>>();

function gateOf(name: string): PromiseWithResolvers<void> {
  const gate = gates.get(name) ?? Promise.withResolvers<void>();
  gates.set(name, gate);
  return gate;
}

async function timed(key: string, work: () => Promise<unknown>): Promise<void> {
  const startedMs = nowMs();
  await work();
  report(key, nowMs() - startedMs);
}

/** Reports the start and the return of the handler around `work`. */
function reported<P>(work: (context: JobContext, payload: P) => unknown) {
  return async (context: JobContext, payload: P): Promise<void> => {
    if (context.attempt === 1) report(`${context.jobId} started`);
    try {
      await work(context, payload);
    } finally {
      if (context.attempt === 1) report(`${context.jobId} returned`);
    }
  };
}

/** Holds the lock of a handler's own transaction until the gate opens, even where the handler returns before that. */
async function holdOwnJob(context: JobContext, { gate, how, returnsEarly }: OwnerPayload): Promise<void> {
  const client = new pg.Client(settings.url);
  await client.connect();
  await client.query('BEGIN');
  await context[how](client);
  report(`${context.jobId} held`);
  const commit = async () => {
    await gateOf(gate).promise;
    await client.query('COMMIT');
    await client.end();
    report(`${context.jobId} released`);
  };
  const committed = commit();
  if (!returnsEarly) await committed;
}

function registerAll(millrace: Millrace): void {
  millrace.register({ type: 'probe', handler: reported(() => {}) });
  millrace.register({
    type: 'fails',
    handler: reported(() => {
      throw new PermanentError('as planned');
    }),
  });
  millrace.register({
    type: 'retries',
    handler: reported(({ attempt }) => {
      if (attempt === 1) throw new TemporaryError('as planned');
    }),
  });
  millrace.register({
    type: 'gate',
    lease: '1s',
    handler: reported(async (_context, { gate, fails }: GatePayload) => {
      await gateOf(gate).promise;
      if (fails) throw new PermanentError('as planned');
    }),
  });
  millrace.register({ type: 'owner', handler: reported(holdOwnJob) });
  millrace.register({
    type: 'progress',
    handler: async (context: JobContext) => {
      await timed(`${context.jobId} progress`, async () => {
        await context.reportProgress(50);
        await context.checkpoint({ at: 1 });
      });
    },
  });
  millrace.register({
    type: 'spawns',
    handler: (context: JobContext) => timed(`${context.jobId} spawned`, () => context.spawn({ type: 'probe', payload: {} })),
  });
  // Completes when its child does, which waits at the gate.
  millrace.register({
    type: 'parent',
    handler: reported((context, payload: GatePayload) => context.spawn({ type: 'gate', payload }, { join: true })),
  });
  millrace.register({ type: 'mortal', lifetime: MORTAL_LIFETIME, handler: () => {} });
  millrace.register({ type: 'tick', handler: (context: JobContext) => report(context.idempotencyKey) });
}

const settings: LockWorkerSettings = JSON.parse(process.argv[2] as string);
const { url, name, queues, slots } = settings;
const millrace = await Millrace.open({ database: url, name, queues, concurrency: slots });
registerAll(millrace);
process.on('message', ({ gate }: GateOpening) => gateOf(gate).resolve());
process.on('disconnect', () => process.exit(0));
await millrace.start();
report('ready');
