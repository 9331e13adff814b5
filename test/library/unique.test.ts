import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Millrace, Submission } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, pathOf, useBench } from './fixture.ts';

const bench = useBench();

const newOrg = () => bench.ledger.newOrg();
const open = async () => bench.open({ org: await newOrg() });

/** Submissions of one type and key. */
function about(unique: Submission['unique'], type = `index-${randomUUID()}`) {
  return { type, of: (version: number, more: Partial<Submission> = {}): Submission => ({ type, payload: { version }, unique, ...more }) };
}

const payloadOf = async (jobId: string) =>
  (await bench.ledger.db.maintenance.query('SELECT payload FROM millrace.jobs WHERE id = $1', [jobId])).rows[0]?.payload;

const countOf = async (type: string) =>
  Number((await bench.ledger.db.maintenance.query('SELECT count(*) FROM millrace.jobs WHERE job_type = $1', [type])).rows[0].count);

/** An engine whose handler waits at a gate and remembers the payloads. */
async function gated(type: string, org: string) {
  const gate = new Gate();
  const seen: unknown[] = [];
  const millrace = await bench.work(
    {
      [type]: (_, payload) => {
        seen.push(payload);
        return gate.pass();
      },
    },
    { org },
  );
  return { gate, seen, millrace };
}

describe('a unique job that is skipped', () => {
  test('returns the job that waits, and creates nothing', async () => {
    const millrace = await open();
    const { type, of } = about({ key: 'k' });
    const first = await millrace.submit(of(1));
    expect(first.status).toBe('ACCEPTED');
    expect(await millrace.submit(of(2))).toEqual({
      ...{ jobId: first.jobId, status: 'SKIPPED', existingJobId: first.jobId, state: 'scheduled' },
      ...{ createdAt: first.createdAt, scheduledFor: first.scheduledFor },
    });
    expect(await countOf(type)).toBe(1);
    expect(await payloadOf(first.jobId)).toEqual({ version: 1 });
  });

  test('is skipped while the job runs, and not after it has ended', async () => {
    const org = await newOrg();
    const { type, of } = about({ key: 'k', until: 'finished' });
    const { gate, millrace } = await gated(type, org);
    const { jobId } = await millrace.submit(of(1));
    await gate.reached(1);
    expect(await millrace.submit(of(2))).toMatchObject({ status: 'SKIPPED', jobId, state: 'running' });
    gate.open();
    await millrace.waitFor(jobId);
    const next = await millrace.submit(of(3));
    expect(next).toMatchObject({ status: 'ACCEPTED' });
    expect(next.jobId).not.toBe(jobId);
  });

  test('until it starts: a job that runs keeps no other away', async () => {
    const org = await newOrg();
    const { type, of } = about({ key: 'k', until: 'started' });
    const { gate, seen, millrace } = await gated(type, org);
    await millrace.submit(of(1));
    await gate.reached(1);
    const second = await millrace.submit(of(2));
    expect(second.status).toBe('ACCEPTED');
    await gate.reached(2);
    expect(seen).toEqual([{ version: 1 }, { version: 2 }]);
    gate.open();
  });

  test('a job that was cancelled, or that waits for its next attempt, is treated by what it still will do', async () => {
    const org = await newOrg();
    const millrace = await bench.work(
      {
        broken: () => {
          throw new Error('not yet');
        },
      },
      { org },
    );
    const { of } = about({ key: 'k', until: 'started' }, 'broken');
    const { jobId } = await millrace.submit(of(1, { backoff: { initialDelay: '1h', maxDelay: '1h' } }));
    await until('the job waits for its next attempt', async () => (await millrace.get(jobId))?.state === 'retrying');
    expect(await millrace.submit(of(2))).toMatchObject({ status: 'SKIPPED', jobId });
    await millrace.cancel(jobId);
    expect(await millrace.submit(of(3, { delay: '1h' }))).toMatchObject({ status: 'ACCEPTED', state: 'delayed' });
  });

  test.each(['pending', 'delayed'] as const)('counts a %s job as one that waits', async (state) => {
    const millrace = await open();
    const { jobId: before } = await millrace.submit({ type: 'before', payload: {} });
    const { of } = about({ key: 'k', until: 'started' });
    const first = await millrace.submit(of(1, state === 'pending' ? { dependsOn: [before] } : { delay: '1h' }));
    expect(first.state).toBe(state);
    expect(await millrace.submit(of(2))).toMatchObject({ status: 'SKIPPED', jobId: first.jobId, state });
  });
});

describe('a unique job that replaces another', () => {
  test.each([
    ['scheduled', {}],
    ['delayed', { delay: '1h' }],
  ] as const)('cancels the %s one, and its history says why', async (state, more) => {
    const millrace = await open();
    const { of } = about({ key: 'k', onConflict: 'replace' });
    const first = await millrace.submit(of(1, more));
    const second = await millrace.submit(of(2));
    expect(second).toMatchObject({ status: 'ACCEPTED', replacedJobId: first.jobId, state: 'scheduled' });
    expect(await millrace.get(first.jobId)).toMatchObject({ state: 'cancelled' });
    expect(await pathOf(millrace, first.jobId)).toEqual([`pending>${state}:submitted`, `${state}>cancelled:replaced`]);
    const third = await millrace.submit(of(3));
    expect(third).toMatchObject({ replacedJobId: second.jobId });
    expect(await bench.violations()).toEqual([]);
  });

  test('only the newest payload runs', async () => {
    const org = await newOrg();
    const { type, of } = about({ key: 'k', until: 'started', onConflict: 'replace' });
    const sender = await bench.open({ org });
    for (let version = 1; version <= 5; version++) await sender.submit(of(version));
    const { gate, seen, millrace } = await gated(type, org);
    gate.open();
    await until('a job ran', () => seen.length > 0);
    await millrace.drain();
    expect(seen).toEqual([{ version: 5 }]);
    expect(await bench.violations()).toEqual([]);
  });

  test('while the other runs: until started there is a new job, until finished there is none', async () => {
    const org = await newOrg();
    const { type, of } = about(null);
    const { gate, seen, millrace } = await gated(type, org);
    const unique = { key: 'k', onConflict: 'replace' } as const;
    const first = await millrace.submit(of(1, { unique: { ...unique, until: 'started' } }));
    await gate.reached(1);
    expect(await millrace.submit(of(2, { unique: { ...unique, until: 'finished' } }))).toMatchObject({
      status: 'SKIPPED',
      jobId: first.jobId,
    });
    const third = await millrace.submit(of(3, { unique: { ...unique, until: 'started' } }));
    expect(third.status).toBe('ACCEPTED');
    expect(third).not.toHaveProperty('replacedJobId');
    gate.open();
    await millrace.waitFor(third.jobId);
    expect(seen).toEqual([{ version: 1 }, { version: 3 }]);
  });

  test('jobs that depend on the replaced one learn that it was cancelled', async () => {
    const org = await newOrg();
    const millrace = await bench.work({ nothing: () => null }, { org });
    const { of } = about({ key: 'k', onConflict: 'replace' });
    const { jobId } = await millrace.submit(of(1, { delay: '1h' }));
    const dependent = await millrace.submit({ type: 'nothing', payload: {}, dependsOn: [jobId] });
    const isMarked = async () =>
      (await bench.ledger.db.maintenance.query('SELECT FROM millrace.jobs WHERE id = $1 AND has_dependents', [jobId])).rowCount;
    await until('the job is known to have dependents', isMarked, 1);
    const isLeft = async () =>
      (
        await bench.ledger.db.maintenance.query(
          'SELECT FROM millrace.releases r JOIN millrace.jobs j USING (org_id, seq) WHERE j.id = $1',
          [dependent.jobId],
        )
      ).rowCount;
    await until('nothing more is to be checked for the dependent', isLeft, 0);
    await millrace.submit(of(2, { delay: '1h' }));
    expect(await millrace.waitFor(dependent.jobId)).toMatchObject({ state: 'cancelled' });
  });
});

describe('a unique job that gives its payload to another', () => {
  test('the waiting job keeps its id, its place and its time', async () => {
    const millrace = await open();
    const { of } = about({ key: 'k', onConflict: 'replace_payload' });
    const first = await millrace.submit(of(1, { delay: '1h', priority: 'HIGH' }));
    const second = await millrace.submit(of(2, { priority: 'LOW' }));
    expect(second).toEqual({ ...first, status: 'UPDATED', existingJobId: first.jobId });
    expect(await payloadOf(first.jobId)).toEqual({ version: 2 });
    expect(await millrace.get(first.jobId)).toMatchObject({ priority: 'HIGH', state: 'delayed' });
    expect(await pathOf(millrace, first.jobId)).toEqual(['pending>delayed:submitted']);
  });

  test('bytes take the place of JSON, and JSON that of bytes', async () => {
    const org = await newOrg();
    const { type, of } = about({ key: 'k', onConflict: 'replace_payload' });
    const sender = await bench.open({ org });
    await sender.submit(of(1));
    const { jobId } = await sender.submit({ ...of(2), payload: Buffer.from([1, 2, 3]) });
    expect(
      (await bench.ledger.db.maintenance.query('SELECT payload, payload_bytes FROM millrace.jobs WHERE id = $1', [jobId])).rows,
    ).toEqual([{ payload: null, payload_bytes: Buffer.from([1, 2, 3]) }]);
    await sender.submit(of(3));
    const { gate, seen, millrace } = await gated(type, org);
    gate.open();
    await millrace.waitFor(jobId);
    expect(seen).toEqual([{ version: 3 }]);
  });
});

describe('a debounced job', () => {
  const debounced = (debounce: Submission['debounce'], type = `debounced-${randomUUID()}`) => ({
    type,
    of: (version: number): Submission => ({ type, payload: { version }, debounce }),
  });

  const startOf = async (millrace: Millrace, jobId: string) => (await millrace.get(jobId))?.scheduledFor?.getTime() as number;

  test('moves back with each submission, and has the newest payload', async () => {
    const millrace = await open();
    const { type, of } = debounced({ key: 'k', delay: '1h' });
    const first = await millrace.submit(of(1));
    expect(first).toMatchObject({ status: 'ACCEPTED', state: 'delayed' });
    // As if the first submission had been ten minutes ago.
    await bench.ledger.db.maintenance.query(
      `WITH j AS (UPDATE millrace.jobs SET run_at = run_at - interval '10 minutes' WHERE id = $1 RETURNING org_id, seq, run_at)
       UPDATE millrace.timers t SET run_at = j.run_at FROM j WHERE t.org_id = j.org_id AND t.seq = j.seq`,
      [first.jobId],
    );
    const before = await startOf(millrace, first.jobId);
    const second = await millrace.submit(of(2));
    expect(second).toMatchObject({ status: 'UPDATED', jobId: first.jobId, state: 'delayed' });
    expect(await startOf(millrace, first.jobId)).toBeGreaterThan(before + 9 * 60_000);
    expect(second.scheduledFor?.getTime()).toBe(await startOf(millrace, first.jobId));
    expect(await payloadOf(first.jobId)).toEqual({ version: 2 });
    expect(await countOf(type)).toBe(1);
    const { rows } = await bench.ledger.db.maintenance.query(
      'SELECT count(*)::int4 AS timers FROM millrace.timers t JOIN millrace.jobs j USING (org_id, seq) WHERE j.id = $1 AND t.run_at = j.run_at',
      [first.jobId],
    );
    expect(rows).toEqual([{ timers: 1 }]);
    expect(await bench.violations()).toEqual([]);
  });

  test('does not move beyond its maximum', async () => {
    const millrace = await open();
    const { of } = debounced({ key: 'k', delay: '1h', max: '90m' });
    const { jobId, createdAt } = await millrace.submit(of(1));
    // As if the first submission had been an hour ago.
    await bench.ledger.db.maintenance.query(`UPDATE millrace.jobs SET created_at = created_at - interval '1 hour' WHERE id = $1`, [jobId]);
    await millrace.submit(of(2));
    expect(await startOf(millrace, jobId)).toBe(createdAt.getTime() + 30 * 60_000);
  });

  test('runs once, with the newest payload, when no submission came for its time', async () => {
    const org = await newOrg();
    const { type, of } = debounced({ key: 'k', delay: '1h' });
    const { gate, seen, millrace } = await gated(type, org);
    gate.open();
    const { jobId } = await millrace.submit(of(1));
    for (let version = 2; version <= 10; version++) await millrace.submit(of(version));
    expect(seen).toEqual([]);
    await bench.ledger.moveClock(3_600_000);
    await millrace.waitFor(jobId);
    expect(seen).toEqual([{ version: 10 }]);
    expect(await countOf(type)).toBe(1);
  });

  test('starts sooner after a submission with a shorter delay', async () => {
    const org = await newOrg();
    const { type, of } = debounced({ key: 'k', delay: '1h' });
    const { gate, seen, millrace } = await gated(type, org);
    gate.open();
    const { jobId } = await millrace.submit(of(1));
    await millrace.submit(debounced({ key: 'k', delay: '1ms' }, type).of(2));
    await millrace.waitFor(jobId);
    expect(seen).toEqual([{ version: 2 }]);
  });
});
