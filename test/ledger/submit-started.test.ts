import { describe, expect, test } from 'vitest';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { submitStarted } from '../../src/ledger/jobs/submit-started.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { rangesOf, type SubmitOverrides, settled, useLedger } from './fixture.ts';

const ledger = useLedger();
const db = () => ledger.db.workers;
/** Long beside what a test takes. */
const LIFETIME_MS = 90_000_000;

async function submitToIdle(overrides: SubmitOverrides & { ranges?: ReturnType<typeof rangesOf> } = {}) {
  const orgId = overrides.orgId ?? (await ledger.newOrg());
  const entry = await ledger.toWrite(orgId, overrides);
  const ranges = overrides.ranges ?? rangesOf({ jobType: entry.job.type });
  const workerId = await ledger.registerWorker();
  const { jobs: started } = await submitStarted(db(), entry, { workerId, claimNo: 1, limit: 8, ranges });
  return { entry, workerId, job: started[0], orgId };
}

async function pause(table: 'queues' | 'job_types', name: string, at: 'millrace.clock()' | 'NULL') {
  const announced = table === 'job_types' ? ', announced_at' : '';
  await db().query(
    `INSERT INTO millrace.${table} (name, paused_at${announced}) VALUES ($1, ${at}${announced && ', millrace.clock()'})
     ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at`,
    [name],
  );
}

describe('a job that is written started', () => {
  test('is in every column and event what one is that was submitted first and taken then [GM-2.14]', async () => {
    const job = {
      envelope: { category: 'C', projectId: null, requestId: 'R-1', traceparent: '00-trace' },
      payload: { kind: 'json' as const, text: '{"deep":{"er":[1,"ü"]}}' },
    };
    const born = await submitToIdle({ job, policy: { lifetimeMs: LIFETIME_MS }, actor: 'user:1' });
    const entry = await ledger.toWrite(born.orgId, { job, policy: { lifetimeMs: LIFETIME_MS }, actor: 'user:1' });
    const alike = { ...entry, job: { ...entry.job, type: born.entry.job.type } };
    await submitJobs(db(), [alike]);
    const ranges = rangesOf({ jobType: alike.job.type });
    const { jobs: started } = await claimAndStart(db(), { workerId: born.workerId, claimNo: 2, limit: 8, ranges });
    const [one, other] = [born.job!, started[0]!];
    expect(shapeOf(one)).toEqual(shapeOf(other));
    expect(rowShape(await ledger.rowOf(one))).toEqual(rowShape(await ledger.rowOf(other)));
    const [events, others] = [await ledger.eventsOf(one), await ledger.eventsOf(other)];
    expect(events.map(eventShape)).toEqual(others.map(eventShape));
    expect(events.map(({ lease_seq }) => lease_seq)).toEqual([0, one.leaseSeq]);
    expect(one.leaseSeq).toBeLessThan(other.leaseSeq);
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  });

  test('is settled by its lease and no other', async () => {
    const { job, workerId } = await submitToIdle();
    const end = { to: 'completed', reason: 'succeeded', result: '1' } as const;
    const stale = { ...job!, leaseSeq: job!.leaseSeq - 1, workerId };
    expect(await ledger.settle(stale, end)).toBe(false);
    expect(await ledger.settle({ ...settled(job!, end), ...job!, workerId }, end)).toBe(true);
    expect(await ledger.pathOf(job!)).toEqual(['pending>scheduled:submitted', 'scheduled>running:started', 'running>completed:succeeded']);
  });
});

describe('nothing is written', () => {
  const expectNothing = async ({ entry, job }: Awaited<ReturnType<typeof submitToIdle>>) => {
    expect(job).toBeUndefined();
    expect(await ledger.rowOf(entry)).toBeUndefined();
  };

  test('while any job that the worker may take is waiting, of whatever type and priority [GM-3.08]', async () => {
    const first = await ledger.submitOne({ job: { priority: 4 } });
    const type = `${first.jobType}-other`;
    const ranges = [...rangesOf(first), ...rangesOf({ jobType: type })];
    await expectNothing(await submitToIdle({ type, ranges }));
    await ledger.start(first);
    expect((await submitToIdle({ type, ranges })).job).toBeDefined();
  });

  test.each(['queues', 'job_types'] as const)('while the row of the job in %s is paused', async (table) => {
    const name = `paused-${table}`;
    const overrides = table === 'queues' ? { job: { queue: name } } : { type: name };
    const ranges = [{ queue: table === 'queues' ? name : 'q:default', jobType: name, priority: 2, floor: 0 }];
    await pause(table, name, 'millrace.clock()');
    await expectNothing(await submitToIdle({ type: name, ranges, ...overrides }));
    await pause(table, name, 'NULL');
    expect((await submitToIdle({ type: name, ranges, ...overrides })).job).toBeDefined();
  });

  test('for a worker that does not serve the range', async () => {
    await expectNothing(await submitToIdle({ ranges: rangesOf({ jobType: 'another' }) }));
  });
});

const TIMES = /At$|_at$|At?Ms$|deadline$/;
const OWN = new Set(['id', 'seq', 'order_key', 'orderKey', 'lease_seq', 'leaseSeq', 'started_lease_seq']);

/** What two jobs of one kind share: all but their own numbers and times. */
function shapeOf(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      if (OWN.has(name) || TIMES.test(name)) return [name, each === null ? null : typeof each];
      return [name, name === 'lifetimeLeftMs' ? Math.round(Number(each) / LIFETIME_MS) : each];
    }),
  );
}

const rowShape = (row: Record<string, unknown>) => ({ ...shapeOf(row), record_ids: (row.record_ids as []).length });

const eventShape = (event: Record<string, unknown>) => ({
  ...shapeOf(event),
  ...{ at: null, txid: null, record_id: null, job_seq: null, took_ms: typeof event.took_ms },
});
