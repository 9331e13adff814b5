import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { LeaseLostError } from '../../src/index.ts';
import { Gate, useStage } from '../library/fixture.ts';
import { until } from '../until.ts';

const stage = useStage();

beforeAll(async () => {
  await stage.ledger.db.maintenance.query('CREATE TABLE orders (job_id uuid PRIMARY KEY, note text)');
});

const notes = async (jobId: string): Promise<string[]> =>
  (await stage.ledger.db.maintenance.query('SELECT note FROM orders WHERE job_id = $1', [jobId])).rows.map((row) => row.note);

/** Runs `work` in a transaction of the user's own; it throws to roll back. */
async function transaction(work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = await stage.connect();
  await client.query('BEGIN');
  try {
    await work(client);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

describe('submit in a transaction of the caller', () => {
  it('leaves a job when that commits, and none before', async () => {
    let jobId = '';
    await transaction(async (client) => {
      ({ jobId } = await stage.millrace.submit(
        stage.acting(() => 'ran'),
        { client },
      ));
      expect(await stage.millrace.get(jobId)).toBeNull();
    });
    expect((await stage.end(jobId)).result?.output).toBe('ran');
  });

  it('leaves none when that rolls back', async () => {
    let jobId = '';
    const ran = new Gate();
    const rolledBack = transaction(async (client) => {
      ({ jobId } = await stage.millrace.submit(
        stage.acting(() => ran.pass()),
        { client },
      ));
      const first = await stage.millrace.submit(
        stage.acting(() => 1),
        { client },
      );
      await stage.millrace.submit(
        stage.acting(() => ran.pass(), { dependsOn: [first.jobId], idempotencyKey: 'gone' }),
        { client },
      );
      throw new Error('changed my mind');
    });
    await expect(rolledBack).rejects.toThrow('changed my mind');
    expect(await stage.millrace.get(jobId)).toBeNull();
    await stage.end(await stage.act(() => 1));
    expect(ran.arrived).toBe(0);
    expect((await stage.millrace.submit(stage.acting(() => 1, { idempotencyKey: 'gone' }))).status).toBe('ACCEPTED');
  });

  it('with dependencies is refused outside of a transaction, where nothing would ever wake the job', async () => {
    const first = await stage.millrace.submit(stage.acting(() => 1));
    const dependent = stage.acting(() => 2, { dependsOn: [first.jobId] });
    const client = await stage.connect();
    const refusal = { code: 'INVALID_REQUEST', message: expect.stringContaining('Send BEGIN') };
    await expect(stage.millrace.submit(dependent, { client })).rejects.toMatchObject(refusal);
    await expect(stage.millrace.submitMany([dependent], { client })).rejects.toMatchObject(refusal);
    await client.query('BEGIN');
    const { jobId } = await stage.millrace.submit(dependent, { client });
    await client.query('COMMIT');
    expect((await stage.end(jobId)).result?.output).toBe(2);
  });

  it('with dependencies may follow a BEGIN that is still on its way, also through a client that knows no status', async () => {
    const first = await stage.millrace.submit(stage.acting(() => 1));
    const client = await stage.connect();
    const begun = client.query('BEGIN');
    const { jobId } = await stage.millrace.submit(
      stage.acting(() => 2, { dependsOn: [first.jobId] }),
      { client },
    );
    await begun;
    const unknowing = { query: client.query.bind(client) } as unknown as pg.Client;
    await stage.millrace.submit(
      stage.acting(() => 3, { dependsOn: [jobId] }),
      { client: unknowing },
    );
    await client.query('COMMIT');
    expect((await stage.end(jobId)).result?.output).toBe(2);
  });

  it('of many is one with the caller’s own rows', async () => {
    const batch = [stage.acting(() => 1), stage.acting(() => 2)];
    let ids: (string | null)[] = [];
    await transaction(async (client) => {
      ids = (await stage.millrace.submitMany(batch, { client })).results.map(({ jobId }) => jobId);
      await client.query('INSERT INTO orders VALUES ($1, $2)', [ids[0], 'placed']);
    });
    expect(await notes(ids[0] as string)).toEqual(['placed']);
    for (const id of ids) expect((await stage.end(id as string)).state).toBe('completed');
  });
});

describe('completeIn', () => {
  it('completes the job together with the handler’s own rows', async () => {
    const heard: string[] = [];
    const stop = stage.millrace.on('completed', ({ jobId: id }) => heard.push(id));
    const jobId = await stage.act(async (context) => {
      await transaction(async (client) => {
        await client.query('INSERT INTO orders VALUES ($1, $2)', [context.jobId, 'shipped']);
        await context.completeIn(client, { shipped: true });
      });
      return 'what is returned afterwards does not count';
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'completed', attemptsStarted: 1, result: { output: { shipped: true } } });
    expect(await notes(jobId)).toEqual(['shipped']);
    await until(
      'the event has arrived',
      () => heard,
      (seen) => seen.includes(jobId),
    );
    stop();
  });

  it('does not when the transaction rolls back: neither the rows nor the end remain, and the job is retried', async () => {
    const jobId = await stage.act(async (context) => {
      await transaction(async (client) => {
        await client.query('INSERT INTO orders VALUES ($1, $2)', [context.jobId, `attempt ${context.attempt}`]);
        await context.completeIn(client, context.attempt);
        if (context.attempt === 1) throw new Error('the last statement failed');
      }).catch(() => {});
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'completed', attemptsStarted: 2, result: { output: 2, attempt: 2 } });
    expect(await notes(jobId)).toEqual(['attempt 2']);
    expect(job.lastFailure).toMatchObject({ category: 'TEMPORARY', code: 'COMPLETION_ROLLED_BACK' });
  });

  it('stays the end of the job when its handler goes on, fails or runs out of time', async () => {
    const heard: string[] = [];
    const stops = (['lost', 'failed'] as const).map((event) => stage.millrace.on(event, ({ jobId: id }) => heard.push(`${event} ${id}`)));
    const completed = new Set<string>();
    stops.push(stage.millrace.on('completed', ({ jobId: id }) => completed.add(id)));
    const failing = await stage.act(async (context) => {
      await transaction((client) => context.completeIn(client, 'done'));
      throw new Error('afterwards');
    });
    const lingering = await stage.act(
      async (context) => {
        await transaction((client) => context.completeIn(client, 'done'));
        await new Promise(() => {});
      },
      // Long enough for the transaction on a machine that pauses for seconds.
      { timeout: '8s' },
    );
    for (const jobId of [failing, lingering]) {
      expect(await stage.end(jobId)).toMatchObject({ state: 'completed', result: { output: 'done' } });
      await until(
        'the job has completed',
        () => completed,
        (seen) => seen.has(jobId),
      );
    }
    for (const stop of stops) stop();
    expect(heard).toEqual([]);
  });
});

describe('assertOwned', () => {
  it('lets the holder of the job write, and keeps the job from everyone else until the commit', async () => {
    const gate = new Gate();
    const jobId = await stage.act(async (context) => {
      await transaction(async (client) => {
        await context.assertOwned(client);
        await client.query('INSERT INTO orders VALUES ($1, $2)', [context.jobId, 'mine']);
        await gate.pass();
      });
    });
    await gate.reached();
    // A session of ours would give up after two seconds.
    const other = await stage.connect();
    const taken = other.query('UPDATE millrace.jobs SET worker_id = worker_id WHERE id = $1', [jobId]);
    await stage.ledger.untilBlocked();
    gate.open();
    await taken;
    await stage.end(jobId);
    expect(await notes(jobId)).toEqual(['mine']);
  });

  it('stops the writes of an attempt whose lease is lost', async () => {
    const gate = new Gate();
    const thrown: unknown[] = [];
    const jobId = await stage.act(
      async (context) => {
        if (context.attempt > 1) return 'second';
        await gate.pass();
        await transaction(async (client) => {
          await context.assertOwned(client);
          await client.query('INSERT INTO orders VALUES ($1, $2)', [context.jobId, 'zombie']);
        }).catch((error) => thrown.push(error));
        await transaction((client) => context.completeIn(client, 'zombie')).catch((error) => thrown.push(error));
        return 'zombie';
      },
      { timeout: '200ms' },
    );
    expect((await stage.end(jobId)).result?.output).toBe('second');
    gate.open();
    await until('both handlers have failed', () => thrown.length, 2);
    for (const error of thrown) expect(error).toBeInstanceOf(LeaseLostError);
    expect(await notes(jobId)).toEqual([]);
    expect((await stage.millrace.get(jobId))?.result?.output).toBe('second');
    expect(await stage.violations()).toEqual([]);
  });
});
