// The worker process of chaos/outcomes-blocked.ts: counts how often each job ran, and how many outcomes it holds that the database has not taken.
import pg from 'pg';
import { type JobContext, Millrace } from '../src/index.ts';

export type OutcomeWorkerSettings = { url: string; slots: number; jobs: number };
export type OutcomeRequest = 'count' | 'commit' | 'end';
export type OutcomeReport =
  | { kind: 'ready' }
  /** The handler has returned, and its transaction still holds the job. */
  | { kind: 'held' }
  | { kind: 'counts'; returned: number; landed: number; repeated: number };

const { url, slots, jobs }: OutcomeWorkerSettings = JSON.parse(process.argv[2] as string);
const report = (message: OutcomeReport): void => void process.send?.(message);
const runs = new Uint8Array(jobs);
let returned = 0;
let landed = 0;
let repeated = 0;
let commit: (() => Promise<void>) | null = null;

const millrace = await Millrace.open({ database: url, concurrency: slots });
millrace.register({
  type: 'noop',
  handler: (_context, { no }: { no: number }) => {
    returned++;
    runs[no] = (runs[no] ?? 0) + 1;
    if (runs[no] > 1) repeated++;
  },
});
millrace.register({
  type: 'owner',
  handler: async (context: JobContext) => {
    const client = new pg.Client(url);
    await client.connect();
    await client.query('BEGIN');
    await context.assertOwned(client);
    commit = async () => {
      await client.query('COMMIT');
      await client.end();
    };
    report({ kind: 'held' });
  },
});
millrace.on('completed', ({ type }) => {
  if (type === 'noop') landed++;
});
process.on('message', (request: OutcomeRequest) => {
  if (request === 'count') report({ kind: 'counts', returned, landed, repeated });
  else if (request === 'commit') void commit?.();
  else void millrace.close({ grace: '5s' }).then(() => process.exit(0));
});
process.on('disconnect', () => process.exit(0));
await millrace.start();
report({ kind: 'ready' });
