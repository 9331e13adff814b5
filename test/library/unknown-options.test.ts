import { describe, expect, it } from 'vitest';
import { Millrace, PermanentError, TemporaryError } from '../../src/index.ts';
import { useStage } from './fixture.ts';

const stage = useStage();
const job = { type: 'plain', payload: {} };
const id = '00000000-0000-4000-8000-00000000000f';

const refusal = (message: string) => ({
  code: 'INVALID_REQUEST',
  message,
  details: [expect.objectContaining({ code: 'UNKNOWN_MEMBER', message })],
});

describe('an option that a call does not know is refused', () => {
  it.each<[string, (millrace: Millrace) => Promise<unknown>, string, string | null]>([
    ['submit', (m) => m.submit(job, { cleint: 1 } as never), 'cleint', 'client'],
    ['a submission', (m) => m.submit({ ...job, prioritty: 'LOW' } as never), 'prioritty', 'priority'],
    ['submitMany', (m) => m.submitMany([job], { atomc: false } as never), 'atomc', 'atomic'],
    ['get', (m) => m.get(id, { includeHistroy: true } as never), 'includeHistroy', 'includeHistory'],
    ['get, the org of the instance', (m) => m.get(id, { orgId: id } as never), 'orgId', null],
    ['search', (m) => m.search({ type: ['plain'] } as never), 'type', 'types'],
    ['a page', (m) => m.search({}, { limits: 5 } as never), 'limits', 'limit'],
    ['stats', (m) => m.stats({ timerange: '1h' } as never), 'timerange', 'timeRange'],
    ['cancel', (m) => m.cancel(id, { forced: true } as never), 'forced', 'force'],
    ['cancelMany', (m) => m.cancelMany({ all: true }, { dryrun: true } as never), 'dryrun', 'dryRun'],
    ['a target', (m) => m.cancelMany({ id: [id] } as never), 'id', 'ids'],
    ['a filter', (m) => m.cancelMany({ filter: { type: 'plain' } } as never), 'filter.type', 'types'],
    ['retry', (m) => m.retry(id, { resetAttempt: true } as never), 'resetAttempt', 'resetAttempts'],
    ['failure', (m) => m.failure(id, { allAttempts: true } as never), 'allAttempts', null],
    ['waitFor', (m) => m.waitFor(id, { timeOut: '1s' } as never), 'timeOut', 'timeout'],
    ['logs', (m) => m.logs(id, { level: ['info'] } as never), 'level', 'levels'],
    ['follow', (m) => m.follow(id, { singal: null } as never).next(), 'singal', 'signal'],
    ['batches.submit', (m) => m.batches.submit([job], { idd: id } as never), 'idd', 'id'],
    ['schedule', (m) => m.schedule('k', { cron: '@daily', timezone: 'UTC', submission: job } as never), 'timezone', 'timeZone'],
    ['drain', (m) => m.drain({ gracems: 1 } as never), 'gracems', 'grace'],
    ['close', (m) => m.close({ timeout: '1s' } as never), 'timeout', null],
    ['queues.configure', (m) => m.queues.configure('q:x', { ordering: 'fifo' } as never), 'ordering', null],
  ])('%s', async (_, call, given, meant) => {
    const hint = meant === null ? '' : ` (did you mean ${meant}?)`;
    const message = `${given} is not known${hint}`;
    await expect(call(stage.millrace)).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      message: expect.stringContaining(message),
      details: expect.arrayContaining([expect.objectContaining({ field: given, code: 'UNKNOWN_MEMBER', message })]),
    });
  });

  it('in open, with the names inside its options', async () => {
    const options = { conurrency: 5, pools: { worker: 2 }, defaults: { timeout: 5 } };
    await expect(Millrace.open({ database: stage.ledger.db.url, ...options } as never)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      details: [
        { field: 'conurrency', message: 'conurrency is not known (did you mean concurrency?)' },
        { field: 'pools.worker', message: 'pools.worker is not known (did you mean workers?)' },
        { field: 'defaults.timeout', message: 'defaults.timeout is not known (did you mean timeoutMs?)' },
      ],
    });
    const wrong = { defaults: { timeoutMs: 0 }, heartbeat: 'soon' };
    await expect(Millrace.open({ database: stage.ledger.db.url, ...wrong })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      details: [{ field: 'defaults.timeoutMs' }, { field: 'heartbeat' }],
    });
  });

  it.each([
    [null, 'options'],
    ['postgres://localhost/app', 'options'],
    [{ org: 'acme' }, 'org'],
    [{ queues: 'q:mail' }, 'queues'],
    [{ pools: null }, 'pools'],
  ])('open(%j) says what to pass', async (options, field) => {
    await expect(Millrace.open(options as never)).rejects.toMatchObject({ code: 'INVALID_CONFIG', details: [{ field }] });
  });

  it('in the name of an event, which would never be heard', () => {
    const listen = () => stage.millrace.on('complete' as never, () => {});
    expect(listen).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST', message: expect.stringContaining('did you mean completed?') }),
    );
  });

  it('in a handler: spawn, and the errors that it throws', async () => {
    const spawning = await stage.end(await stage.act((context) => context.spawn(job, { joined: true } as never)));
    expect(spawning.lastFailure).toMatchObject({ category: 'PERMANENT', message: 'joined is not known (did you mean join?)' });
    expect(() => new TemporaryError('x', { retryIn: '5s' } as never)).toThrow(expect.objectContaining(refusal('retryIn is not known')));
    expect(() => new PermanentError('x', { cod: 'X' } as never)).toThrow(/did you mean code/);
  });

  it.each([[null], ['text'], [5], [[]], [() => 1]])('options that are %s, and no object, are refused', async (options) => {
    await expect(stage.millrace.get(id, options as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(stage.millrace.search(options as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(stage.millrace.submit(job, options as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });
});

describe('a value of the wrong kind is refused, and never ignored', () => {
  it.each<[string, (millrace: Millrace) => Promise<unknown>, string]>([
    ['a breakdown', (m) => m.stats({ breakdownBy: ['type'] as never }), 'breakdownBy[0]'],
    ['breakdowns that are no list', (m) => m.stats({ breakdownBy: 'TYPE' as never }), 'breakdownBy'],
    ['the reason of cancel', (m) => m.cancel(id, { reason: 'x'.repeat(1_001) }), 'reason'],
    ['the reason of cancelMany', (m) => m.cancelMany({ ids: [id] }, { reason: 'a\0b' }), 'reason'],
    ['a cap of a type', (m) => m.queues.capType('plain', 0), 'concurrency'],
    ['a cap of an org', (m) => m.queues.capOrg(id, 1.5), 'running'],
    ['a cursor', (m) => m.search({}, { cursor: 5 as never }), 'cursor'],
    ['an update', (m) => m.update(id, null as never), 'update'],
    ['the key of a schedule', (m) => m.unschedule(5 as never), 'key'],
  ])('%s', async (_, call, field) => {
    await expect(call(stage.millrace)).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      details: [expect.objectContaining({ field })],
    });
  });

  it('a cap of an org that does not exist, and a listener that is no function', async () => {
    await expect(stage.millrace.queues.capOrg(id, 1)).rejects.toMatchObject({ code: 'NOT_FOUND', message: `Org ${id} does not exist.` });
    expect(() => stage.millrace.on('completed', undefined as never)).toThrow(/listener must be a function/);
  });
});

describe('a filter', () => {
  it('without a condition cancels nothing, and says how to cancel all jobs', async () => {
    const millrace = await stage.open({ org: await stage.ledger.newOrg() });
    const other = await stage.open({ org: await stage.ledger.newOrg() });
    const kept = await other.submit(job);
    const { jobId } = await millrace.submit(job);
    const wanted: string[] | undefined = undefined;
    for (const filter of [{}, { types: wanted }, { types: null }, { tags: {} }] as never[]) {
      for (const dryRun of [false, true]) {
        await expect(millrace.cancelMany({ filter }, { dryRun })).rejects.toMatchObject({
          code: 'INVALID_REQUEST',
          message: expect.stringContaining('all: true'),
        });
      }
    }
    await expect(millrace.cancelMany({ ids: [jobId], all: true } as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(millrace.cancelMany({ all: false } as never)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    expect((await millrace.get(jobId))?.state).toBe('scheduled');
    expect(await millrace.cancelMany({ filter: { types: [] } })).toMatchObject({ requested: 0 });
    expect(await millrace.cancelMany({ all: true }, { dryRun: true })).toMatchObject({ requested: 1, cancelled: 1, dryRun: true });
    expect(await millrace.cancelMany({ all: true })).toMatchObject({ requested: 1, cancelled: 1, dryRun: false });
    expect([(await millrace.get(jobId))?.state, (await other.get(kept.jobId))?.state]).toEqual(['cancelled', 'scheduled']);
  });

  it.each([
    ['types', 'plain'],
    ['states', 'failed'],
    ['ids', id],
    ['tags', ['a']],
    ['tags', new Map([['a', 'b']])],
    ['createdAfter', '2026-01-01'],
    ['createdBefore', new Date(Number.NaN)],
    ['updatedAfter', 5],
  ])('whose %s is %s is refused', async (name, value) => {
    const refused = (field: string) => ({ code: 'INVALID_REQUEST', details: [expect.objectContaining({ field, code: 'INVALID_TYPE' })] });
    const filter = { [name]: value } as never;
    await expect(stage.millrace.search(filter)).rejects.toMatchObject(refused(name));
    await expect(stage.millrace.cancelMany({ filter })).rejects.toMatchObject(refused(`filter.${name}`));
  });
});
