import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JobState } from '../../src/core/states.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { projectRollups } from '../../src/ledger/history/rollups.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { countJobs } from '../../src/ledger/reads/count-jobs.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { until } from '../until.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const HOUR = 3_600_000;

const stats = (orgId: string) => countJobs(ledger.db.api, orgId, { sinceMs: HOUR, breakdownBy: ['TYPE', 'PRIORITY', 'STATE'] });

/** Until every event is counted: transactions of other databases on the server hold the horizon back, too. */
async function projectAll(): Promise<number> {
  const text = `SELECT EXISTS (SELECT FROM millrace.events
    WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'rollups')) AS "isLeft"`;
  let events = 0;
  await until('every event is counted', async () => {
    const { isLeft } = (await ledger.db.api.query(text)).rows[0];
    const round = isLeft ? await projectRollups(ledger.db.maintenance, 1_000) : null;
    if (round?.kind === 'projected') events += round.events;
    return !isLeft;
  });
  return events;
}

async function sumOf(orgId: string, column: string): Promise<number> {
  const text = `SELECT coalesce(sum(${column}), 0)::int4 AS sum FROM millrace.rollups WHERE org_id = $1 AND width = 86400`;
  return (await ledger.db.api.query(text, [orgId])).rows[0].sum;
}

describe('the rollup writer', () => {
  test('an event that commits after later ones is counted, once', async () => {
    const orgId = await ledger.newOrg();
    const slow = await ledger.db.workers.connect();
    try {
      await slow.query('BEGIN');
      await ledger.submitOneOn(slow, { orgId });
      await ledger.submitOne({ orgId });
      await projectRollups(ledger.db.maintenance, 1_000);
      // The quick one began after the slow one and must wait for it.
      expect(await sumOf(orgId, 'submitted')).toBe(0);
      expect((await stats(orgId)).states.scheduled).toBe(1);
      expect((await stats(orgId)).submissionRate * 3_600).toBeCloseTo(1);
      await slow.query('COMMIT');
    } finally {
      slow.release(true);
    }
    expect((await stats(orgId)).submissionRate * 3_600).toBeCloseTo(2);
    await projectAll();
    await projectAll();
    expect(await sumOf(orgId, 'submitted')).toBe(2);
    expect((await stats(orgId)).submissionRate * 3_600).toBeCloseTo(2);
  });

  test('an event that is rolled back leaves nothing', async () => {
    const orgId = await ledger.newOrg();
    await inTransaction(ledger.db.workers, async (client) => {
      await ledger.submitOneOn(client, { orgId });
      throw new Error('no');
    }).catch(() => {});
    await ledger.submitOne({ orgId });
    await projectAll();
    expect(await sumOf(orgId, 'submitted')).toBe(1);
  });

  test('one that dies before it commits is followed by one that counts the same events', async () => {
    const orgId = await ledger.newOrg();
    await ledger.putJob('completed', { orgId });
    const { rows } = await ledger.db.api.query(`SELECT txid::text FROM millrace.projections WHERE name = 'rollups'`);
    // The lock is all that is left of a rollup writer whose connection was cut; the server takes it back with the transaction.
    const dying = await ledger.db.maintenance.connect();
    await dying.query('BEGIN');
    await dying.query(`UPDATE millrace.projections SET txid = pg_current_xact_id() WHERE name = 'rollups'`);
    expect(await projectRollups(ledger.db.maintenance, 100)).toEqual({ kind: 'busy' });
    await dying.query('ROLLBACK');
    dying.release(true);
    expect(await projectAll()).toBeGreaterThanOrEqual(3);
    expect(await sumOf(orgId, 'completed')).toBe(1);
    const after = await ledger.db.api.query(`SELECT txid::text FROM millrace.projections WHERE name = 'rollups'`);
    expect(BigInt(after.rows[0].txid)).toBeGreaterThan(BigInt(rows[0].txid));
  });

  test('several at once count every event once', async () => {
    const orgId = await ledger.newOrg();
    for (let made = 0; made < 20; made++) await ledger.putJob('completed', { orgId });
    const writer = async () => {
      for (let round = 0; round < 40; round++) await projectRollups(ledger.db.maintenance, 2);
    };
    await Promise.all([writer(), writer(), writer()]);
    await projectAll();
    expect([await sumOf(orgId, 'submitted'), await sumOf(orgId, 'completed')]).toEqual([20, 20]);
    const { rows } = await ledger.db.api.query('SELECT state, jobs FROM millrace.live_totals WHERE org_id = $1', [orgId]);
    expect(rows.filter((row) => Number(row.jobs) !== 0)).toEqual([]);
  });
});

type Step = JobState | 'completed after a retry' | 'retried by hand' | 'later';

const PRIORITIES = [0, 1, 2, 3, 4];
const history = fc.array(
  fc.record({
    step: fc.constantFrom<Step>(
      ...(['pending', 'delayed', 'scheduled', 'running', 'retrying', 'completed', 'failed', 'dead_letter', 'cancelled'] as const),
      ...(['completed after a retry', 'retried by hand', 'later'] as const),
    ),
    type: fc.constantFrom('mail', 'report'),
    priority: fc.constantFrom(...PRIORITIES),
    projects: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12 },
);

async function act(orgId: string, { step, priority }: { step: Step; priority: number }, type: string): Promise<void> {
  const overrides = { orgId, type, job: { priority } };
  if (step === 'later') return ledger.moveClock(1_700);
  if (step === 'retried by hand') {
    const { id } = await ledger.putJob('failed', overrides);
    await retryJob(ledger.db.api, { projectId: null, orgId, id, priority: null, delayMs: 0, resetAttempts: false, actor: null });
  } else if (step === 'completed after a retry') {
    const job = await ledger.putJob('retrying', overrides);
    await again(job);
  } else {
    await ledger.putJob(step, overrides);
  }
}

async function again(job: TestJob): Promise<void> {
  await ledger.moveClock(61_000);
  await stageJobs(ledger.db.workers, { limit: 1_000, floor: null });
  await ledger.moveClock(250);
  const running = await ledger.start(job);
  await ledger.moveClock(40);
  await ledger.settle(running, { to: 'completed', reason: 'succeeded' });
}

/** The same, counted one by one. */
async function bruteForce(orgId: string) {
  const { rows } = await ledger.db.api.query(
    `SELECT j.state, (SELECT count(*)::int4 FROM millrace.jobs a WHERE a.org_id = $1) AS submitted, count(*)::int4 AS jobs
     FROM millrace.jobs j WHERE j.org_id = $1 AND j.completed_at IS NULL GROUP BY j.state`,
    [orgId],
  );
  const ended = await ledger.db.api.query(
    `SELECT to_state AS state, count(*)::int4 AS jobs FROM millrace.events
     WHERE org_id = $1 AND to_state IN ('completed', 'failed', 'dead_letter', 'cancelled') GROUP BY to_state`,
    [orgId],
  );
  const waits = await ledger.db.api.query(
    `SELECT max(extract(epoch FROM s.at - (SELECT max(p.at) FROM millrace.events p WHERE p.org_id = s.org_id
       AND p.job_seq = s.job_seq AND p.n < s.n AND p.to_state = 'scheduled')) * 1000)::float8 AS max_ms, count(*)::int4 AS started
     FROM millrace.events s WHERE s.org_id = $1 AND s.to_state = 'running'`,
    [orgId],
  );
  const states = Object.fromEntries([...rows, ...ended.rows].map((row) => [row.state, row.jobs]));
  return { states, maxWaitMs: waits.rows[0].max_ms as number | null, started: waits.rows[0].started as number };
}

test('counts agree with the tables whatever was projected when [GA-2.51] [GA-2.52] [GA-2.56] [GA-2.62]', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const orgId = await ledger.newOrg();
      for (const [index, step] of steps.entries()) {
        await act(orgId, step, `${step.type}-${orgId.slice(0, 8)}-${index}`);
        if (step.projects) await projectRollups(ledger.db.maintenance, 3);
      }
      const truth = await bruteForce(orgId);
      const seen = await stats(orgId);
      expect(Object.fromEntries(Object.entries(seen.states).filter(([, jobs]) => jobs > 0))).toEqual(truth.states);
      if (truth.maxWaitMs === null) expect(seen.queueLatency).toBeNull();
      else expect(seen.queueLatency?.maxMs).toBeCloseTo(truth.maxWaitMs, 1);
      await projectAll();
      expect(await stats(orgId)).toEqual(seen);
      const text = `SELECT coalesce(sum(attempts), 0)::int4 AS started FROM millrace.rollup_latencies
        WHERE org_id = $1 AND kind = 'queue' AND width = 3600`;
      expect((await ledger.db.api.query(text, [orgId])).rows[0].started).toBe(truth.started);
    }),
    { numRuns: 25 },
  );
}, 180_000);
