import { describe, expect, it } from 'vitest';
import { useStage } from './fixture.ts';

const stage = useStage();
const born = new Date(0);
const MESSAGE = 'user.born is a Date; pass an ISO string such as date.toISOString()';

describe('a value that would come back as something else is refused', () => {
  it('in the payload of a submission, a batch, a child and a schedule', async () => {
    const { millrace } = stage;
    const submission = { type: 'plain', payload: { user: { born } } };
    const refused = {
      code: 'INVALID_REQUEST',
      message: expect.stringContaining(`payload.${MESSAGE}`),
      details: [{ field: 'payload.user.born', code: 'NOT_SERIALIZABLE', message: `payload.${MESSAGE}` }],
    };
    await expect(millrace.submit(submission)).rejects.toMatchObject(refused);
    await expect(millrace.schedule('born', { cron: '@daily', submission })).rejects.toMatchObject(refused);
    const { results } = await millrace.submitMany([submission, { type: 'plain', payload: {} }], { atomic: false });
    expect(results).toMatchObject([{ status: 'REJECTED', error: refused }, { status: 'ACCEPTED' }]);
    const parent = await stage.end(await stage.act((context) => context.spawn(submission)));
    expect(parent.lastFailure).toMatchObject({ category: 'PERMANENT', code: 'INVALID_REQUEST' });
  });

  it('in the result of a handler: the job fails, once, and says where', async () => {
    const results = [
      { user: { born } },
      { list: [undefined] },
      new Map([['a', 1]]),
      Number.NaN,
      { file: Buffer.from('x') },
      new URL('a:b'),
    ];
    const failures = await Promise.all(results.map(async (result) => stage.end(await stage.act(() => result))));
    for (const job of failures) {
      expect(job).toMatchObject({ state: 'failed', attemptsStarted: 1 });
      expect(job.lastFailure).toMatchObject({ category: 'PERMANENT', code: 'NOT_SERIALIZABLE' });
    }
    expect(failures[0]?.lastFailure?.message).toBe(`The result of the handler cannot be stored: result.${MESSAGE}`);
    expect(failures[2]?.lastFailure?.message).toContain('result is a Map');
  });

  it('in completeIn, before anything is written', async () => {
    const job = await stage.end(
      await stage.act(async (context) => {
        const client = await stage.connect();
        await client.query('BEGIN');
        await context.completeIn(client, { user: { born } }).finally(() => client.query('ROLLBACK'));
      }),
    );
    expect(job.lastFailure).toMatchObject({ category: 'PERMANENT', code: 'NOT_SERIALIZABLE', message: `result.${MESSAGE}` });
  });

  it('in a checkpoint, which then keeps the state before it', async () => {
    const text = 'NUL \0 and half \ud800 of a pair';
    const job = await stage.end(
      await stage.act(async (context) => {
        await context.checkpoint({ text });
        const refused = await context.checkpoint({ seen: new Set([1]) }).catch((error: Error) => error.message);
        const state = await context.lastCheckpoint<{ text: string }>();
        return [refused, state?.text === text];
      }),
    );
    expect(job.result?.output).toEqual(['checkpoint.seen is a Set; pass [...set]', true]);
  });

  it('in the message of progress, and as tags', async () => {
    const job = await stage.end(await stage.act((context) => context.reportProgress(5, { step: 1 } as never)));
    expect(job.lastFailure?.message).toContain('must be a string, not object');
    for (const tags of [new Map([['a', 'b']]), new Date(0), { n: 1 }] as never[]) {
      await expect(stage.millrace.submit({ type: 'plain', payload: {}, tags })).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        details: [expect.objectContaining({ field: expect.stringMatching(/^tags/), code: 'INVALID_TYPE' })],
      });
    }
  });
});

it('a member that is undefined counts as absent, in a payload and in a result', async () => {
  const jobId = await stage.act((_, payload) => ({ payload, nothing: undefined }), { payload: { a: 1, nothing: undefined } });
  expect((await stage.end(jobId)).result?.output).toEqual({ payload: { a: 1 } });
});
