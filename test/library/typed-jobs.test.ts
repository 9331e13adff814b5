/** What the compiler knows of jobs. The tests below are proven by the type check, which every file here passes. */
import { describe, expectTypeOf, test } from 'vitest';
import type { JobId, JobView, Millrace } from '../../src/index.ts';

type Jobs = {
  email: { payload: { to: string }; result: { messageId: string } };
  resize: { payload: { file: string }; result: { bytes: number } };
};

/** Never called: it is there to be compiled. */
const compiled = (_: (millrace: Millrace<Jobs>, untyped: Millrace) => unknown): void => {};

describe('of a map of job types', () => {
  test('the id that a submission answers knows what get and waitFor answer', () => {
    compiled(async (millrace) => {
      const { jobId } = await millrace.submit({ type: 'email', payload: { to: 'ada' } });
      expectTypeOf(jobId).toExtend<string>();
      const ended = await millrace.waitFor(jobId);
      expectTypeOf(ended.type).toEqualTypeOf<'email'>();
      expectTypeOf(ended.payload).toEqualTypeOf<{ to: string }>();
      expectTypeOf(ended.result?.output).toEqualTypeOf<{ messageId: string } | null | undefined>();
      expectTypeOf((await millrace.get(jobId))?.payload).toEqualTypeOf<{ to: string } | undefined>();
      // @ts-expect-error an email has no bytes
      ended.result?.output?.bytes;
    });
  });

  test('a job read by a plain id is one of the types, and its type tells which', () => {
    compiled(async (millrace) => {
      const job = await millrace.get('7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11');
      expectTypeOf(job?.payload).toEqualTypeOf<{ to: string } | { file: string } | undefined>();
      if (job?.type === 'resize') expectTypeOf(job.result?.output).toEqualTypeOf<{ bytes: number } | null | undefined>();
      // @ts-expect-error it may be an email
      job?.payload.file;
      const named = await millrace.waitFor<'resize'>('7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11');
      expectTypeOf(named.payload).toEqualTypeOf<{ file: string }>();
    });
  });

  test('a search for some types finds jobs of those', () => {
    compiled(async (millrace) => {
      const { jobs } = await millrace.search({ types: ['resize'], states: ['completed'] });
      expectTypeOf(jobs[0]?.payload).toEqualTypeOf<{ file: string } | undefined>();
      expectTypeOf((await millrace.search()).jobs[0]?.type).toEqualTypeOf<'email' | 'resize' | undefined>();
      // @ts-expect-error there is no such type
      await millrace.search({ types: ['emial'] });
    });
  });

  test('a handler, the jobs it spawns and a schedule are checked against it', () => {
    compiled((millrace) => {
      millrace.register({
        type: 'resize',
        handler: async (context, payload) => {
          expectTypeOf(payload).toEqualTypeOf<{ file: string }>();
          const child = await context.spawn({ type: 'email', payload: { to: payload.file } }, { join: true });
          expectTypeOf(child).toEqualTypeOf<JobId<'email'>>();
          // @ts-expect-error the payload is another type's
          await context.spawn({ type: 'email', payload: { file: 'x' } });
          // @ts-expect-error there is no such type
          await context.spawn({ type: 'emial', payload: {} });
          return { bytes: 1 };
        },
      });
      // @ts-expect-error the result is another type's
      millrace.register({ type: 'resize', handler: () => ({ messageId: 'm' }) });
      void millrace.schedule('nightly', { cron: '@daily', submission: { type: 'email', payload: { to: 'ada' } } });
      // @ts-expect-error the payload is another type's
      void millrace.schedule('nightly', { cron: '@daily', submission: { type: 'email', payload: { file: 'x' } } });
    });
  });

  test('a submission has the members it may have, and the payload of its type', () => {
    compiled((millrace) => {
      // @ts-expect-error the payload is another type's
      void millrace.submit({ type: 'email', payload: { file: 'x' } });
      // @ts-expect-error the member is misspelt
      void millrace.submit({ type: 'email', payload: { to: 'ada' }, maxAttempt: 3 });
    });
  });

  test('without one, payloads and results are unknown', () => {
    compiled(async (_, millrace) => {
      const { jobId } = await millrace.submit({ type: 'anything', payload: { any: 'thing' } });
      expectTypeOf(await millrace.waitFor(jobId)).toEqualTypeOf<JobView>();
      expectTypeOf((await millrace.search({ types: ['anything'] })).jobs).toEqualTypeOf<JobView[]>();
    });
  });
});
