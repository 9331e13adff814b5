import pg from 'pg';
import { ReadyRanges } from '../src/engine/work/ready-ranges.ts';
import { Millrace } from '../src/index.ts';
import { claimAndStart } from '../src/ledger/attempts/claim-and-start.ts';
import { completeJobs } from '../src/ledger/attempts/complete-jobs.ts';
import { registerWorker } from '../src/ledger/attempts/workers.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { allStatements } from '../src/ledger/driver/statement.ts';
import { submitBatches } from './workload.ts';

/** Buffers that one claim of ten jobs touches, at the start and after `jobs` more were claimed while a snapshot pins them. */
export async function claimBuffers(url: string, jobs: number): Promise<{ before: number; after: number }> {
  const millrace = await Millrace.open({ database: url });
  await submitBatches(millrace, Math.ceil(jobs / 1_000) + 1);
  await millrace.close();
  const database = openDatabase({ url });
  const pin = new pg.Client(url);
  await pin.connect();
  await pin.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await pin.query('SELECT count(*) FROM millrace.queues');
  const identity = { name: 'bench', host: 'bench', pid: 1, types: ['noop'], queues: ['q:default'], slots: 1 };
  const workerId = await registerWorker(database.workers, identity);
  const ranges = new ReadyRanges();
  ranges.set({ queues: ['q:default'], types: ['noop'], fair: new Set() });
  const before = await explainClaim(database.workers, { workerId, ranges });
  for (let claimed = 0, claimNo = 1; claimed < jobs; claimNo++) {
    const { jobs: started } = await claimAndStart(database.workers, {
      workerId,
      ranges: ranges.next(performance.now()),
      limit: 200,
      claimNo,
      runs: ranges.runsFor(200),
    });
    ranges.raise(started);
    const finished = started.map(({ orgId, seq, leaseSeq }) => ({ orgId, seq, leaseSeq, result: null }));
    await completeJobs(database.workers, { workerId, finished, closedClaims: [claimNo] });
    claimed += started.length;
  }
  const after = await explainClaim(database.workers, { workerId, ranges });
  await pin.end();
  await database.close();
  return { before, after };
}

/** Runs one claim inside a transaction that is rolled back, and counts what it touched. */
async function explainClaim(pool: pg.Pool, { workerId, ranges }: { workerId: number; ranges: ReadyRanges }): Promise<number> {
  const { text } = allStatements().find((each) => each.name === 'millrace_claim_and_start') as { text: string };
  const now = ranges.next(performance.now());
  const values = [
    ...[workerId, 10, 0, now.map((range) => range.queue), now.map((range) => range.jobType)],
    ...[now.map((range) => range.priority), now.map((range) => range.floor), ranges.runsFor(10), now.map(() => 0)],
  ];
  const client = await pool.connect();
  await client.query('BEGIN');
  const { rows } = await client.query({ text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values });
  await client.query('ROLLBACK');
  client.release();
  const plan = rows[0]['QUERY PLAN'][0].Plan as Record<string, number>;
  return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
}
