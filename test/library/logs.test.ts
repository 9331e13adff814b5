import { describe, expect, it } from 'vitest';
import { Millrace } from '../../src/index.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage();

const linesOf = async (jobId: string) => (await stage.millrace.logs(jobId, { limit: 1_000 }))?.lines ?? [];

describe('the log lines of a job', () => {
  it('are stored before its outcome, with level, fields, attempt and time, in the order of the calls [GA-5.25]', async () => {
    const jobId = await stage.act((context) => {
      context.log('warn', 'nearly full', { percent: 93 });
      context.log('only a message');
      if (context.attempt === 1) throw new Error('again');
    });
    const job = await stage.end(jobId);
    const lines = await linesOf(jobId);
    expect(lines.map(({ attempt, level, message, fields }) => ({ attempt, level, message, fields }))).toEqual([
      { attempt: 1, level: 'warn', message: 'nearly full', fields: { percent: 93 } },
      { attempt: 1, level: 'info', message: 'only a message', fields: {} },
      { attempt: 2, level: 'warn', message: 'nearly full', fields: { percent: 93 } },
      { attempt: 2, level: 'info', message: 'only a message', fields: {} },
    ]);
    for (const { at } of lines) {
      expect(at.getTime()).toBeGreaterThanOrEqual(job.createdAt.getTime());
      expect(at.getTime()).toBeLessThanOrEqual(job.completedAt?.getTime() ?? 0);
    }
  });

  it('are read in pages, by level, and only by their org', async () => {
    const jobId = await stage.act((context) => {
      for (let n = 0; n < 5; n++) context.log(n === 3 ? 'error' : 'debug', `line ${n}`);
    });
    await stage.end(jobId);
    const first = await stage.millrace.logs(jobId, { limit: 3 });
    expect(first?.lines.map(({ message }) => message)).toEqual(['line 0', 'line 1', 'line 2']);
    const second = await stage.millrace.logs(jobId, { limit: 3, cursor: first?.nextCursor });
    expect(second).toMatchObject({ jobId, nextCursor: null });
    expect(second?.lines.map(({ message }) => message)).toEqual(['line 3', 'line 4']);
    const errors = await stage.millrace.logs(jobId, { levels: ['error', 'warn'] });
    expect(errors?.lines.map(({ message }) => message)).toEqual(['line 3']);
    const stranger = await stage.open({ org: await stage.ledger.newOrg() });
    expect(await stranger.logs(jobId)).toBeNull();
    expect(await stage.millrace.logs('../etc/passwd')).toBeNull();
    const other = await stage.act((context) => context.log('x'));
    await stage.end(other);
    // A cursor of one job is refused for another, and so are levels and limits that do not exist.
    const wrong = [{ cursor: first?.nextCursor }, { cursor: 'x' }, { levels: ['loud'] as never }, { limit: 0 }, { limit: 1_001 }];
    for (const options of wrong) await expect(stage.millrace.logs(other, options)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  it('store hostile text, and a line never fails its job', async () => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const jobId = await stage.act((context) => {
      context.log('info', 'a\0b\u0007\u001b[31m\r\n\ud800', { text: 'x\0\ud800y', ['__proto__']: 1, constructor: 2 });
      context.log('info', 'm'.repeat(1_048_576), { big: 'f'.repeat(1_048_576), small: 1 });
      context.log('info', 'circular', circular);
      context.log('loud' as never, 'an unknown level');
      context.log('info', { toString: () => Promise.reject.call(1) } as never, 'text' as never);
      context.log(undefined as never);
      context.log('info', 'no fields', null as never);
    });
    expect((await stage.end(jobId)).state).toBe('completed');
    const lines = await linesOf(jobId);
    expect(lines.map(({ level }) => level)).toEqual(Array(7).fill('info'));
    expect(lines[0]?.message).toBe('a\uFFFDb\u0007\u001b[31m\r\n\uFFFD');
    expect(lines[0]?.fields).toEqual(JSON.parse('{"text":"x\\u0000\\ud800y","__proto__":1,"constructor":2}'));
    expect(lines[1]?.message).toBe('m'.repeat(8_192));
    expect(lines[1]?.fields).toEqual({ truncated: true, big: expect.stringMatching(/^f{7000,8192}$/), small: 1 });
    expect(lines[2]).toMatchObject({ message: 'circular', fields: { truncated: true } });
    expect(lines[3]?.message).toBe('an unknown level');
    expect(lines[4]).toMatchObject({ message: '(a value that has no text)', fields: { value: 'text' } });
    expect(lines[5]?.message).toBe('undefined');
    expect(lines[6]).toMatchObject({ message: 'no fields', fields: {} });
  });

  it('are bounded: of 100 000 lines the first 1000 are stored, and one line reports the others', async () => {
    const jobId = await stage.act((context) => {
      for (let n = 1; n <= 100_000; n++) context.log('info', `line ${n}`);
    });
    await stage.end(jobId);
    const first = await stage.millrace.logs(jobId, { limit: 1_000 });
    expect(first?.lines.at(-1)?.message).toBe('line 1000');
    const rest = await stage.millrace.logs(jobId, { limit: 1_000, cursor: first?.nextCursor });
    expect(rest?.lines).toEqual([
      expect.objectContaining({ level: 'warn', message: expect.stringContaining('99000 more lines'), fields: { dropped: 99_000 } }),
    ]);
  });

  it('are bounded in bytes, and those of old attempts are removed', async () => {
    const large = await stage.act((context) => {
      for (let n = 1; n <= 200; n++) context.log('info', 'x'.repeat(8_192), { n });
    });
    await stage.end(large);
    const lines = await linesOf(large);
    expect(lines.length).toBeLessThan(140);
    expect(lines.at(-1)?.fields.dropped).toBe(200 - (lines.length - 1));
    const many = await stage.act(
      (context) => {
        context.log('info', `attempt ${context.attempt}`);
        if (context.attempt < 13) throw new Error('again');
      },
      { maxAttempts: 20 },
    );
    await stage.end(many);
    expect((await linesOf(many)).map(({ attempt }) => attempt)).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
  });

  it('appear while the handler still runs, also in another process, with its progress, after its start and before its end', async () => {
    const gate = new Gate();
    const jobId = await stage.act(async (context) => {
      context.log('info', 'first');
      await context.reportProgress(40, 'nearly half');
      await gate.pass();
      await context.reportProgress(90);
      context.log('info', 'last');
    });
    await gate.reached();
    const other = await Millrace.open({ database: stage.ledger.db.url });
    const seen: string[] = [];
    for await (const news of other.follow(jobId)) {
      if (news.kind === 'state') seen.push(news.to);
      else if (news.kind === 'progress') seen.push(`${news.percent} %`);
      else seen.push(news.message);
      if (seen.includes('40 %') && seen.includes('first')) gate.open();
    }
    await other.close();
    expect(seen.toSorted()).toEqual(['40 %', '90 %', 'completed', 'first', 'last', 'running', 'scheduled']);
    expect([...seen.slice(0, 2), ...seen.slice(-1)]).toEqual(['scheduled', 'running', 'completed']);
  });

  it('are written for a job that completes in its own transaction', async () => {
    const client = await stage.connect();
    const jobId = await stage.act(async (context) => {
      await client.query('BEGIN');
      context.log('info', 'in the transaction');
      await context.completeIn(client);
      expect((await linesOf(context.jobId)).map(({ message }) => message)).toEqual(['in the transaction']);
      await client.query('COMMIT');
    });
    expect((await stage.end(jobId)).state).toBe('completed');
  });

  it('of an attempt that has lost its job are dropped', async () => {
    const gate = new Gate();
    const over = Promise.withResolvers<void>();
    const jobId = await stage.act(async (context) => {
      context.log('info', 'before');
      await gate.pass();
      context.log('info', 'after');
      over.resolve();
    });
    await gate.reached();
    const { promise: lost, resolve } = Promise.withResolvers<void>();
    stage.millrace.on('lost', (job) => job.jobId === jobId && resolve());
    await stage.ledger.db.maintenance.query('UPDATE millrace.jobs SET lease_seq = lease_seq + 1000000 WHERE id = $1', [jobId]);
    gate.open();
    await Promise.all([lost, over.promise]);
    expect((await linesOf(jobId)).filter(({ message }) => message === 'after')).toEqual([]);
  });

  it('end a follower with its signal, and refuse an unknown job', async () => {
    const gate = new Gate();
    const jobId = await stage.act(() => gate.pass());
    await gate.reached();
    const stop = new AbortController();
    const follow = async (id: string) => {
      for await (const news of stage.millrace.follow(id, { signal: stop.signal }))
        if (news.kind === 'state' && news.to === 'running') stop.abort();
    };
    await expect(follow(jobId)).rejects.toMatchObject({ name: 'AbortError' });
    gate.open();
    await stage.end(jobId);
    const unknown = stage.millrace.follow('00000000-0000-4000-8000-00000000000f').next();
    await expect(unknown).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
