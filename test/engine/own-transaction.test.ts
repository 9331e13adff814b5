import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobContext, JobView } from '../../src/index.ts';
import { useStage } from '../library/fixture.ts';

const stage = useStage();
let pool: pg.Pool;

beforeAll(() => {
  // One connection: code that takes a client after a release gets the very same one.
  pool = new pg.Pool({ connectionString: stage.ledger.db.url, max: 1 });
});
afterAll(() => pool.end());

/** Holds the job in a transaction of the handler's own and does `work` in it. */
async function whileOwned(context: JobContext, end: 'COMMIT' | 'ROLLBACK', work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await context.assertOwned(client);
    await work(client);
    await client.query(end);
  } finally {
    client.release();
  }
}

const outputOf = (job: JobView) => job.result?.output as unknown;

const progressOf = async (jobId: string) => (await stage.millrace.get(jobId))?.progress ?? null;

/** A call that waits for the lock of the handler's own transaction fails; no second attempt may hide that. */
const ONE_TRY = { maxAttempts: 1 } as const;

describe('in the transaction of assertOwned', () => {
  it('progress is reported with the commit, and not before', async () => {
    const seen: unknown[] = [];
    const jobId = await stage.act(async (context) => {
      await whileOwned(context, 'COMMIT', async () => {
        await context.reportProgress(40, 'inside');
        seen.push(await progressOf(context.jobId));
      });
      seen.push(await progressOf(context.jobId));
    }, ONE_TRY);
    expect((await stage.end(jobId)).lastFailure).toBeNull();
    expect(seen).toEqual([null, expect.objectContaining({ percent: 40, message: 'inside' })]);
  });

  it('a checkpoint is saved with the commit, goes with a rollback, and is found by the transaction itself', async () => {
    const seen: unknown[] = [];
    const jobId = await stage.act(async (context) => {
      await whileOwned(context, 'ROLLBACK', async () => {
        await context.checkpoint({ step: 1 });
        seen.push(await context.lastCheckpoint());
      });
      seen.push(await context.lastCheckpoint());
      await whileOwned(context, 'COMMIT', () => context.checkpoint({ step: 2 }));
      seen.push(await context.lastCheckpoint());
    }, ONE_TRY);
    expect((await stage.end(jobId)).lastFailure).toBeNull();
    expect(seen).toEqual([{ step: 1 }, null, { step: 2 }]);
  });

  it('a child is spawned with the commit, and goes with a rollback', async () => {
    const children: string[] = [];
    const jobId = await stage.act(async (context) => {
      for (const end of ['ROLLBACK', 'COMMIT'] as const) {
        await whileOwned(context, end, async () => {
          const child = await context.spawn(stage.acting(() => end));
          children.push(child);
          expect(await stage.millrace.get(child)).toBeNull();
        });
      }
    }, ONE_TRY);
    expect((await stage.end(jobId)).lastFailure).toBeNull();
    const [undone, kept] = children as [string, string];
    expect(await stage.millrace.get(undone)).toBeNull();
    expect(await stage.end(kept)).toMatchObject({ parentId: jobId, result: { output: 'COMMIT' } });
  });

  it('a child that is refused takes back nothing else, also among several at once', async () => {
    const outcomes: string[] = [];
    const jobId = await stage.act(async (context) => {
      await whileOwned(context, 'COMMIT', async () => {
        const unknown = '00000000-0000-7000-8000-000000000000';
        const spawned = await Promise.allSettled([
          context.spawn(stage.acting(() => 1)),
          context.spawn(stage.acting(() => 2, { dependsOn: [unknown] })),
          context.spawn(stage.acting(() => 3)),
        ]);
        outcomes.push(...spawned.map(({ status }) => status));
        await context.checkpoint({ spawned: spawned.map((each) => (each as { value?: string }).value ?? null) });
      });
      return context.lastCheckpoint();
    }, ONE_TRY);
    const job = await stage.end(jobId);
    expect(job.lastFailure).toBeNull();
    expect(outcomes).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const { spawned } = outputOf(job) as { spawned: (string | null)[] };
    const outputs = spawned.filter((id) => id !== null).map(async (id) => (await stage.end(id)).result?.output);
    expect(await Promise.all(outputs)).toEqual([1, 3]);
  });

  it('after completeIn a checkpoint is refused with a sentence, and the rollback leaves the job to its next attempt', async () => {
    const jobId = await stage.act(async (context) => {
      if (context.attempt === 2) return 'second';
      await whileOwned(context, 'COMMIT', async (client) => {
        await context.completeIn(client, 'first');
        await context.checkpoint({}).catch(async (error) => {
          await client.query('ROLLBACK');
          throw new Error(error.message);
        });
      });
      return 'first';
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'completed', attemptsStarted: 2, result: { output: 'second' } });
    expect(job.lastFailure?.message).toMatch(/completeIn has completed the job in this transaction/);
  });
});

describe('after the transaction of assertOwned has ended', () => {
  for (const end of ['COMMIT', 'ROLLBACK'] as const) {
    it(`by ${end}, all three are written at once`, async () => {
      const seen: unknown[] = [];
      const jobId = await stage.act(async (context) => {
        await whileOwned(context, end, async () => {});
        await context.reportProgress(70);
        await context.checkpoint({ after: end });
        const child = await context.spawn(stage.acting(() => 'child'));
        seen.push((await progressOf(context.jobId))?.percent, await context.lastCheckpoint());
        seen.push((await stage.end(child)).result?.output);
      }, ONE_TRY);
      expect((await stage.end(jobId)).lastFailure).toBeNull();
      expect(seen).toEqual([70, { after: end }, 'child']);
    });
  }

  it('by closing the client, they are written at once', async () => {
    const jobId = await stage.act(async (context) => {
      const client = await stage.connect();
      await client.query('BEGIN');
      await context.assertOwned(client);
      await client.end();
      await context.checkpoint('closed');
      return context.lastCheckpoint();
    }, ONE_TRY);
    expect((await stage.end(jobId)).result?.output).toBe('closed');
  });

  it('and other code uses the client, none of the three runs in its transaction', async () => {
    const jobId = await stage.act(async (context) => {
      const first = await pool.connect();
      await first.query('BEGIN');
      await context.assertOwned(first);
      await first.query('COMMIT');
      first.release();
      const other = await pool.connect();
      expect(other).toBe(first);
      await other.query('BEGIN');
      await other.query('CREATE TEMPORARY TABLE others_work (n int)');
      await context.reportProgress(80);
      await context.checkpoint({ kept: true });
      const child = await context.spawn(stage.acting(() => 'child'));
      await other.query('ROLLBACK');
      other.release();
      return [(await progressOf(context.jobId))?.percent, await context.lastCheckpoint(), child];
    }, ONE_TRY);
    const job = await stage.end(jobId);
    expect(job.lastFailure).toBeNull();
    const [percent, checkpoint, child] = outputOf(job) as [number, unknown, string];
    expect([percent, checkpoint]).toEqual([80, { kept: true }]);
    expect((await stage.end(child)).result?.output).toBe('child');
  });

  it('and the client says nothing of its state, the statements themselves find out', async () => {
    const jobId = await stage.act(async (context) => {
      const client = await stage.connect();
      const bare = { query: (text: string, values?: unknown[]) => client.query(text, values) };
      await client.query('BEGIN');
      await context.assertOwned(bare);
      await context.checkpoint('first');
      await client.query('COMMIT');
      await client.query('BEGIN');
      await client.query('CREATE TEMPORARY TABLE others_work (n int)');
      await context.checkpoint('second');
      const child = await context.spawn(stage.acting(() => 'child'));
      await context.reportProgress(90);
      await client.query('ROLLBACK');
      return [(await progressOf(context.jobId))?.percent, await context.lastCheckpoint(), child];
    }, ONE_TRY);
    const job = await stage.end(jobId);
    expect(job.lastFailure).toBeNull();
    const [percent, checkpoint, child] = outputOf(job) as [number, unknown, string];
    expect([percent, checkpoint]).toEqual([90, 'second']);
    expect((await stage.end(child)).result?.output).toBe('child');
  });
});
