import { describe, expect, it } from 'vitest';
import { JobCancelledError, TemporaryError } from '../../src/index.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage();

describe('the context of a handler', () => {
  it('names the job, its type, attempt, birth, correlation, tags and deadline [GA-5.13] [GA-5.14] [GA-5.15] [GA-5.16] [GA-5.17] [GA-5.18] [GA-5.19] [GM-7.04]', async () => {
    const jobId = await stage.act(
      ({ jobId, type, attempt, createdAt, correlationId, tags, deadline }) => ({
        ...{ jobId, type, attempt, correlationId, tags },
        ...{ createdAtMs: createdAt.getTime(), leftMs: deadline.getTime() - Date.now() },
      }),
      { correlationId: 'trace-1', tags: { team: 'blue' }, timeout: '40s' },
    );
    const job = await stage.end(jobId);
    const seen = job.result?.output as Record<string, unknown>;
    expect(seen).toMatchObject({ jobId, type: 'act', attempt: 1, correlationId: 'trace-1', tags: { team: 'blue' } });
    expect(Math.abs((seen.createdAtMs as number) - job.createdAt.getTime())).toBeLessThan(2);
    expect(seen.leftMs).toBeGreaterThan(20_000);
    expect(seen.leftMs).toBeLessThanOrEqual(40_000);
  });

  it('has the id of the job as correlation, and no tags and no trace, where none were given [AB-contract.08]', async () => {
    const job = await stage.end(await stage.act(({ correlationId, tags, traceparent }) => ({ correlationId, tags, traceparent })));
    expect(job.result?.output).toEqual({ correlationId: job.id, tags: {}, traceparent: null });
    expect(job).toMatchObject({ correlationId: job.id, requestId: job.id, category: null, projectId: null });
  });

  it('tells the first run from a retry and links each attempt to the one before [GM-7.06] [GM-7.07] [GM-7.08] [GM-5.11]', async () => {
    const seen: { attempt: number; attemptId: string; previousAttemptId: string | null; token: number }[] = [];
    const jobId = await stage.act(({ attempt, attemptId, previousAttemptId, leaseToken }) => {
      seen.push({ attempt, attemptId, previousAttemptId, token: leaseToken });
      if (attempt < 3) throw new Error('not yet');
    });
    await stage.end(jobId);
    expect(seen.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(new Set(seen.map(({ attemptId }) => attemptId)).size).toBe(3);
    expect(seen.map(({ previousAttemptId }) => previousAttemptId)).toEqual([null, seen[0]?.attemptId, seen[1]?.attemptId]);
    expect(seen.map(({ token }) => token)).toEqual(seen.map(({ token }) => token).toSorted((a, b) => a - b));
  });

  it('always has an idempotency key: the one submitted, else one that is the same for every attempt [GM-7.05]', async () => {
    const given = await stage.end(await stage.act(({ idempotencyKey }) => idempotencyKey, { idempotencyKey: 'order-7' }));
    expect(given.result?.output).toBe('order-7');
    const derived = new Set<string>();
    const jobId = await stage.act(({ attempt, idempotencyKey }) => {
      derived.add(idempotencyKey);
      if (attempt === 1) throw new Error('again');
    });
    await stage.end(jobId);
    expect([...derived]).toEqual([expect.stringContaining(jobId)]);
  });

  it('writes structured log entries that listeners get with the job they belong to [GA-5.25]', async () => {
    const heard: unknown[] = [];
    const stop = stage.millrace.on('log', (entry) => heard.push(entry));
    const jobId = await stage.act(({ log }) => void log, {});
    const loud = await stage.act((context) => context.log('warn', 'nearly full', { percent: 93 }));
    await Promise.all([stage.end(jobId), stage.end(loud)]);
    stop();
    expect(heard).toEqual([
      {
        ...{ jobId: loud, type: 'act', attempt: 1, tags: null, correlationId: null, projectId: null },
        ...{ orgId: expect.any(String), createdAtMs: expect.any(Number) },
        ...{ level: 'warn', message: 'nearly full', fields: { percent: 93 } },
      },
    ]);
  });
});

describe('what a handler says too much of', () => {
  it('is cut: 1 KB of a progress message, in characters that can be stored [GA-5.21]', async () => {
    const heard: (string | null)[] = [];
    const stop = stage.millrace.on('progress', ({ message }) => heard.push(message));
    const jobId = await stage.act(async (context) => {
      await context.reportProgress(1, 'a\0b');
      await context.reportProgress(2, 'é'.repeat(600));
    });
    expect((await stage.end(jobId)).state).toBe('completed');
    stop();
    expect(heard).toEqual(['a\uFFFDb', 'é'.repeat(512)]);
  });

  it('is cut: 16 KB of the fields of a log entry [GA-5.25]', async () => {
    const heard: Record<string, unknown>[] = [];
    const stop = stage.millrace.on('log', ({ fields }) => heard.push(fields));
    const ring: Record<string, unknown> = {};
    ring.self = ring;
    const fields = { n: 1, list: Array.from({ length: 9_000 }, () => 7), ring, text: 'é"'.repeat(9_000), last: true };
    await stage.end(await stage.act((context) => context.log('info', 'much', fields)));
    stop();
    const [heardOf] = heard;
    expect(heardOf).toEqual({ n: 1, truncated: true, text: expect.stringMatching(/^(é")+é?$/), last: true });
    const bytes = Buffer.byteLength(JSON.stringify(heardOf));
    expect([bytes > 8_192, bytes <= 16_384]).toEqual([true, true]);
  });
});

describe('progress', () => {
  it('is seen in the status of the running job and does not move updatedAt [GA-5.21]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(async (context) => {
      await context.reportProgress(41.6, 'halfway');
      await gate.pass();
    });
    await gate.reached();
    const job = await stage.millrace.get(jobId);
    gate.open();
    expect(job?.progress).toMatchObject({ percent: 42, message: 'halfway' });
    expect(job?.updatedAt).toEqual(job?.startedAt);
    await stage.end(jobId);
  });

  it('is a number from 0 to 100', async () => {
    const job = await stage.end(await stage.act((context) => context.reportProgress(101)));
    expect(job).toMatchObject({ state: 'failed', attemptsStarted: 1, lastFailure: { code: 'INVALID_REQUEST' } });
  });

  it('is heard by listeners in the process', async () => {
    const heard: unknown[] = [];
    const stop = stage.millrace.on('progress', ({ jobId, percent, message }) => heard.push({ jobId, percent, message }));
    const jobId = await stage.act((context) => context.reportProgress(5, 'begun'));
    await stage.end(jobId);
    stop();
    expect(heard).toEqual([{ jobId, percent: 5, message: 'begun' }]);
  });
});

describe('a checkpoint', () => {
  it('is where the next attempt goes on [GM-5.13] [GM-5.14] [GA-5.22] [GA-5.23]', async () => {
    const worked: number[] = [];
    const jobId = await stage.act(async (context) => {
      const from = (await context.lastCheckpoint<{ next: number }>())?.next ?? 1;
      for (let step = from; step <= 4; step++) {
        worked.push(step);
        await context.checkpoint({ next: step + 1 });
        if (step === 2 && context.attempt === 1) throw new TemporaryError('the line went dead');
      }
      return worked.length;
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'completed', attemptsStarted: 2 });
    expect(worked).toEqual([1, 2, 3, 4]);
  });

  it('keeps bytes as bytes [GA-5.22]', async () => {
    const jobId = await stage.act(async (context) => {
      if (context.attempt === 1) {
        await context.checkpoint(new Uint8Array([0, 255, 7]));
        throw new Error('again');
      }
      const found = await context.lastCheckpoint();
      return { isBytes: found instanceof Uint8Array, bytes: [...(found as Uint8Array)] };
    });
    expect((await stage.end(jobId)).result?.output).toEqual({ isBytes: true, bytes: [0, 255, 7] });
  });

  it('is null before the first, and refuses more than a megabyte', async () => {
    const first = await stage.end(await stage.act((context) => context.lastCheckpoint()));
    expect(first.result?.output).toBeNull();
    const large = await stage.end(await stage.act((context) => context.checkpoint('x'.repeat(1_048_577))));
    expect(large.lastFailure).toMatchObject({ category: 'PERMANENT', code: 'INVALID_REQUEST' });
  });

  it('is where a gentle cancellation is met [GA-5.20] [GA-3.11]', async () => {
    const gate = new Gate();
    let before: boolean | undefined;
    let thrown: unknown;
    const jobId = await stage.act(async (context) => {
      before = context.isCancelled;
      await gate.pass();
      try {
        await context.checkpoint({});
      } catch (error) {
        thrown = error;
        throw error;
      } finally {
        before = before === false && context.isCancelled;
      }
    });
    await gate.reached();
    expect(await stage.millrace.cancel(jobId)).toMatchObject({ status: 'CANCEL_REQUESTED', previousState: 'running' });
    gate.open();
    expect((await stage.end(jobId)).state).toBe('cancelled');
    expect(thrown).toBeInstanceOf(JobCancelledError);
    expect(before).toBe(true);
  });
});

describe('spawn', () => {
  it('creates a child of the running job and answers its id [GA-5.24] [GM-6.04]', async () => {
    const children: string[] = [];
    const jobId = await stage.act(
      async (context) => {
        for (const n of [1, 2]) children.push(await context.spawn(stage.acting(() => n)));
        children.push(await context.spawn({ ...stage.acting(() => 3), priority: 'LOW' }));
      },
      { priority: 'HIGH' },
    );
    await stage.end(jobId);
    const jobs = await Promise.all(children.map((child) => stage.end(child)));
    expect(jobs.map((job) => job.result?.output)).toEqual([1, 2, 3]);
    expect(jobs.map((job) => job.parentId)).toEqual([jobId, jobId, jobId]);
    expect(jobs.map((job) => job.priority)).toEqual(['HIGH', 'HIGH', 'LOW']);
  });

  it('refuses a child that is not valid, and nothing of it exists', async () => {
    const jobId = await stage.act((context) => context.spawn({ ...stage.acting(() => 1), maxAttempts: 0 }));
    expect((await stage.end(jobId)).lastFailure).toMatchObject({ category: 'PERMANENT', code: 'INVALID_REQUEST' });
    const { rows } = await stage.ledger.db.api.query('SELECT FROM millrace.jobs WHERE parent_seq IS NOT NULL AND max_attempts = 0');
    expect(rows).toEqual([]);
  });
});
