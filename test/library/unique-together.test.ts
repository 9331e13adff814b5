/** Unique keys together with batches, idempotency keys, children, schedules, limits and hostile names. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Submission } from '../../src/index.ts';
import { pruneJobs } from '../../src/ledger/upkeep/prune.ts';
import { WORST } from '../hostile/names.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { Gate, useBench } from './fixture.ts';

const bench = useBench();
const open = async () => bench.open({ org: await bench.ledger.newOrg() });
const newType = () => `together-${randomUUID()}`;
const query = async (text: string, values: unknown[]) => (await bench.ledger.db.maintenance.query(text, values)).rows;
const keysOf = (org: string) => query('SELECT key FROM millrace.unique_keys WHERE org_id = $1', [org]);

const invalid = (field: string, words: string) => ({
  code: 'INVALID_REQUEST',
  details: expect.arrayContaining([expect.objectContaining({ field, message: expect.stringContaining(words) })]),
});

describe('a batch', () => {
  test.each([true, false])('with the same key several times is as if its jobs came one after the other (atomic: %s)', async (atomic) => {
    const millrace = await open();
    const type = newType();
    const skip = (version: number): Submission => ({ type, payload: { version }, unique: { key: 'skip' } });
    const replace = (version: number): Submission => ({ type, payload: { version }, unique: { key: 'replace', onConflict: 'replace' } });
    const swap = (version: number): Submission => ({ type, payload: { version }, unique: { key: 'swap', onConflict: 'replace_payload' } });
    const plain = { type, payload: { version: 0 } };
    const batch = [skip(1), replace(1), plain, skip(2), replace(2), swap(1), replace(3), swap(2), swap(3)];
    const { accepted, results } = await millrace.submitMany(batch, { atomic });
    expect(accepted).toBe(9);
    const ids = results.map(({ jobId }) => jobId);
    expect(results).toMatchObject([
      { status: 'ACCEPTED' },
      { status: 'ACCEPTED' },
      { status: 'ACCEPTED' },
      { status: 'SKIPPED', existingJobId: ids[0] },
      { status: 'ACCEPTED', replacedJobId: ids[1] },
      { status: 'ACCEPTED' },
      { status: 'ACCEPTED', replacedJobId: ids[4] },
      { status: 'UPDATED', existingJobId: ids[5] },
      { status: 'UPDATED', existingJobId: ids[5] },
    ]);
    const jobs = await query('SELECT state, payload FROM millrace.jobs WHERE job_type = $1 ORDER BY seq', [type]);
    expect(jobs.filter(({ state }) => state === 'scheduled').map(({ payload }) => payload.version)).toEqual([1, 0, 3, 3]);
    expect(await bench.violations()).toEqual([]);
  });

  test('that is refused changes nothing, not even the job with the key', async () => {
    const millrace = await open();
    const type = newType();
    const unique = { key: 'k', onConflict: 'replace' } as const;
    await millrace.submit({ type: 'other', payload: { a: 1 }, idempotencyKey: 'taken' });
    const { jobId } = await millrace.submit({ type, payload: {}, unique });
    const { rejected } = await millrace.submitMany([
      { type, payload: { version: 2 }, unique },
      { type: 'other', payload: { a: 2 }, idempotencyKey: 'taken' },
    ]);
    expect(rejected).toBe(2);
    expect(await millrace.get(jobId)).toMatchObject({ state: 'scheduled' });
  });
});

describe('with an idempotency key', () => {
  test('a repeat returns the job of the first request, whatever its unique key says', async () => {
    const millrace = await open();
    const submission: Submission = { type: newType(), payload: {}, idempotencyKey: 'i', unique: { key: 'k', onConflict: 'replace' } };
    const first = await millrace.submit(submission);
    expect(await millrace.submit(submission)).toMatchObject({ status: 'DUPLICATE', jobId: first.jobId, state: 'scheduled' });
    await expect(millrace.submit({ ...submission, unique: { key: 'other' } })).rejects.toMatchObject({ code: 'DUPLICATE' });
  });

  test('a submission that is skipped does not use up its key', async () => {
    const millrace = await open();
    const type = newType();
    const { jobId } = await millrace.submit({ type, payload: {}, unique: { key: 'k' } });
    const second: Submission = { type, payload: { n: 2 }, idempotencyKey: 'i', unique: { key: 'k' } };
    expect(await millrace.submit(second)).toMatchObject({ status: 'SKIPPED', jobId });
    await millrace.cancel(jobId);
    const third = await millrace.submit(second);
    expect(third.status).toBe('ACCEPTED');
    expect(await millrace.submit(second)).toMatchObject({ status: 'DUPLICATE', jobId: third.jobId });
    expect(await bench.violations()).toEqual([]);
  });
});

test('the key belongs to a type and a project: other types, projects and orgs have their own job', async () => {
  const orgs = [await bench.ledger.newOrg(), await bench.ledger.newOrg()];
  const [one, other] = [await bench.open({ org: orgs[0] }), await bench.open({ org: orgs[1] })];
  const type = newType();
  const unique = { key: 'k' };
  const projects = [randomUUID(), randomUUID()];
  for (const org of orgs) for (const project of projects) await newProject(bench.ledger.db, org, project);
  const submissions: Submission[] = [
    { type, payload: {}, unique },
    { type: `${type}-2`, payload: {}, unique },
    ...projects.map((projectId): Submission => ({ type, payload: {}, unique, projectId })),
  ];
  for (const millrace of [one, other])
    for (const submission of submissions) expect(await millrace.submit(submission)).toMatchObject({ status: 'ACCEPTED' });
  for (const submission of submissions) expect(await one.submit(submission)).toMatchObject({ status: 'SKIPPED' });
});

test('children and schedules have unique keys too', async () => {
  const org = await bench.ledger.newOrg();
  const gate = new Gate();
  const ids: string[] = [];
  const child: Submission = { type: 'child', payload: {}, unique: { key: 'k' } };
  const millrace = await bench.work(
    {
      child: () => gate.pass(),
      parent: async (context) => {
        for (let n = 0; n < 3; n++) ids.push(await context.spawn(child));
      },
    },
    { org },
  );
  const { jobId } = await millrace.submit({ type: 'parent', payload: {} });
  await millrace.waitFor(jobId);
  expect(new Set(ids).size).toBe(1);
  await millrace.schedule('often', { cron: '* * * * * *', submission: { ...child, unique: { key: 'scheduled' } } });
  const scheduled = () => query(`SELECT id FROM millrace.jobs WHERE org_id = $1 AND actor = 'system:scheduler'`, [org]);
  const fired = async () => (await query('SELECT last_fired_at FROM millrace.schedules WHERE org_id = $1', [org]))[0]?.last_fired_at;
  await until('the schedule has fired', fired, (at) => at !== null);
  const first = await fired();
  await until('the schedule has fired again', fired, (at) => at > first);
  expect(await scheduled()).toHaveLength(1);
  gate.open();
});

test('a job with a limit that waits for its grant is replaced', async () => {
  const org = await bench.ledger.newOrg();
  const gate = new Gate();
  const type = newType();
  const seen: unknown[] = [];
  const handler = (_: unknown, payload: unknown) => {
    seen.push(payload);
    return gate.pass();
  };
  const millrace = await bench.work({ [type]: handler }, { org });
  const of = (version: number): Submission => ({
    ...{ type, payload: { version }, limit: { key: 'one', concurrency: 1 } },
    unique: { key: 'k', until: 'started', onConflict: 'replace' },
  });
  await millrace.submit(of(1));
  await gate.reached(1);
  await millrace.submit(of(2));
  const { jobId, ...third } = await millrace.submit(of(3));
  expect(third).toHaveProperty('replacedJobId');
  gate.open();
  await millrace.waitFor(jobId);
  expect(seen).toEqual([{ version: 1 }, { version: 3 }]);
  expect(await bench.violations()).toEqual([]);
});

test('the row of a key goes with its job', async () => {
  const org = await bench.ledger.newOrg();
  const millrace = await bench.open({ org });
  const { jobId } = await millrace.submit({ type: newType(), payload: {}, unique: { key: 'k' } });
  await millrace.cancel(jobId);
  expect(await keysOf(org)).toHaveLength(1);
  await query(
    `WITH old AS (UPDATE millrace.jobs SET created_at = created_at - interval '1000 days', completed_at = completed_at - interval '999 days'
       WHERE id = $1 RETURNING record_ids) SELECT FROM old`,
    [jobId],
  );
  await until(
    'the job is removed',
    async () => {
      await pruneJobs(bench.ledger.db.maintenance, 100);
      return (await query('SELECT FROM millrace.jobs WHERE id = $1', [jobId])).length;
    },
    0,
  );
  expect(await keysOf(org)).toEqual([]);
});

describe('names from outside', () => {
  const accepted = WORST.filter((name) => name !== '' && name.length <= 256 && !name.includes('\0') && name.isWellFormed());

  test.each(accepted.map((key) => [key]))('%j is a key like any other', async (key) => {
    const millrace = await open();
    const type = newType();
    const { jobId } = await millrace.submit({ type, payload: {}, unique: { key } });
    expect(await millrace.submit({ type, payload: {}, unique: { key } })).toMatchObject({ status: 'SKIPPED', jobId });
    expect(await millrace.submit({ type, payload: {}, unique: { key: `${key}.` } })).toMatchObject({ status: 'ACCEPTED' });
  });

  test('256 characters of four bytes are accepted', async () => {
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org });
    const unique = { key: '👩'.repeat(256) };
    const projectId = await newProject(bench.ledger.db, org);
    expect(await millrace.submit({ type: '👩'.repeat(100), payload: {}, unique, projectId })).toMatchObject({
      status: 'ACCEPTED',
    });
  });

  test.each<[Partial<Submission>, string, string]>([
    [{ unique: 'k' as never }, 'unique', 'must be an object'],
    [{ unique: {} as never }, 'unique.key', 'is required'],
    [{ unique: { key: '' } }, 'unique.key', 'must not be empty'],
    [{ unique: { key: 'x'.repeat(10_000) } }, 'unique.key', 'at most 256'],
    [{ unique: { key: 'a\0b' } }, 'unique.key', 'control characters'],
    [{ unique: { key: '\ud800' } }, 'unique.key', 'Unicode'],
    [{ unique: { key: 7 as never } }, 'unique.key', 'must be a string'],
    [{ unique: { key: 'k', until: 'starte' as never } }, 'unique.until', 'did you mean started'],
    [{ unique: { key: 'k', onConflict: 'replce' as never } }, 'unique.onConflict', 'did you mean replace'],
    [{ unique: { key: 'k', onconflict: 'skip' } as never }, 'unique.onconflict', 'did you mean onConflict'],
    [{ unique: JSON.parse('{"key":"k","__proto__":1}') }, 'unique.__proto__', 'is not known'],
    [{ debounce: [] as never }, 'debounce', 'must be an object'],
    [{ debounce: { key: 'k' } as never }, 'debounce.delay', 'is required'],
    [{ debounce: { key: 'k', delay: 0 } }, 'debounce.delay', 'greater than zero'],
    [{ debounce: { key: 'k', delay: 'soon' as never } }, 'debounce.delay', 'is not a duration'],
    [{ debounce: { key: 'k', delay: '5s', max: '1s' } }, 'debounce.max', 'must not be shorter'],
    [{ debounce: { key: 'k', delay: '5s', maximum: '1s' } as never }, 'debounce.maximum', 'is not known'],
    [{ debounce: { key: 'k', delay: '8d' } }, 'debounce.delay', 'lifetime'],
    [{ debounce: { key: 'k', delay: '1s', max: '8d' } }, 'debounce.max', 'lifetime'],
    [{ debounce: { key: 'k', delay: '1s' }, unique: { key: 'k' } }, 'debounce', 'and unique cannot be combined'],
    [{ debounce: { key: 'k', delay: '1s' }, delay: '1s' }, 'debounce', 'and delay cannot be combined'],
    [{ debounce: { key: 'k', delay: '1s' }, scheduledAt: new Date() }, 'debounce', 'and scheduledAt cannot be combined'],
    [{ uniqe: { key: 'k' } } as never, 'uniqe', 'did you mean unique'],
  ])('%j is refused', async (more, field, words) => {
    const millrace = await open();
    await expect(millrace.submit({ type: 'any', payload: {}, ...more })).rejects.toMatchObject(invalid(field, words));
  });
});
