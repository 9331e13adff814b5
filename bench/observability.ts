// What metrics and logs at their defaults cost on the hot path, as a share of the processor time of a job. Two parts are measured alone, because
// whole runs with and without them differ by 10 % for other reasons: the observers of the process, attached and not in turns while one
// process submits and runs jobs; and the part of the rollups that counts metrics, with the same history counted again and again.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Millrace } from '../src/index.ts';
import { METERED, METERED_COLUMNS } from '../src/ledger/history/metric-counts.ts';
import { projectRollups } from '../src/ledger/history/rollups.ts';
import { logJobs } from '../src/platform/job-lines.ts';
import { observeProcess } from '../src/platform/process-observer.ts';
import { createLog } from '../src/telemetry/log.ts';
import { Metrics } from '../src/telemetry/metrics.ts';
import { SinkTracer } from '../src/telemetry/trace.ts';
import { median, submitSingles } from './workload.ts';

/** The least share of the throughput without metrics and logs. */
export const OBSERVED_SHARE = 0.95;

/** Processor time of a job in microseconds: all of it without metrics and logs, and what each part adds. */
export type ObservedFigures = { wholeUs: number; observersUs: number; rollupsUs: number; share: number };

type Size = { jobs: number; turns: number };

export async function measureObservability(
  fresh: (name: string) => Promise<string>,
  { quick }: { quick: boolean },
): Promise<ObservedFigures> {
  const size = quick ? { jobs: 2_000, turns: 4 } : { jobs: 10_000, turns: 14 };
  const url = await fresh('observed');
  const { withUs, withoutUs, serverUs } = await costOfObservers(url, size);
  const observersUs = withUs - withoutUs;
  const rollupsUs = await costOfRollups(url, size);
  const wholeUs = withoutUs + serverUs - rollupsUs;
  return { wholeUs, observersUs, rollupsUs, share: wholeUs / (wholeUs + Math.max(0, observersUs) + rollupsUs) };
}

/** Processor time of this process for a job, and of the server over all turns. */
async function costOfObservers(url: string, { jobs, turns }: Size): Promise<{ withUs: number; withoutUs: number; serverUs: number }> {
  const client = new pg.Client(url);
  await client.connect();
  const server = await postmasterOf(client);
  const millrace = await Millrace.open({ database: url, concurrency: 64 });
  millrace.register({ type: 'noop', handler: () => {} });
  await millrace.start();
  const telemetry = { metrics: new Metrics(), log: createLog(() => {}, { limit: 1_000 }), tracer: new SinkTracer(null) };
  const costs = { with: [] as number[], without: [] as number[] };
  let serverBefore = 0;
  for (let turn = -2; turn < turns; turn++) {
    if (turn === 0) serverBefore = ticksOf(server); // The first turns compile the code.
    const kind = turn % 2 === 0 ? 'with' : 'without';
    const stops =
      kind === 'with' ? [logJobs(millrace, telemetry.log, { showsJobs: false }), observeProcess(millrace, null, telemetry)] : [];
    const before = process.cpuUsage();
    await submitSingles(millrace, jobs);
    await untilEnded(client);
    const { user, system } = process.cpuUsage(before);
    if (turn >= 0) costs[kind].push((user + system) / jobs);
    for (const stop of stops) stop();
  }
  const serverUs = ((ticksOf(server) - serverBefore) * TICK_US) / (jobs * turns);
  await millrace.close({ grace: '5s' });
  await client.end();
  return { withUs: median(costs.with), withoutUs: median(costs.without), serverUs };
}

async function untilEnded(client: pg.Client): Promise<void> {
  const left = `SELECT EXISTS (SELECT FROM millrace.jobs WHERE state < 'completed') AS "isLeft"`;
  while ((await client.query(left)).rows[0].isLeft) await sleep(50);
}

const PROJECT = 'millrace_project_rollups';

/** How much longer the rollups of a job take because they count metrics. The session does nothing else, so its time is processor time. */
async function costOfRollups(url: string, { jobs, turns }: Size): Promise<number> {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  await pool.query('VACUUM ANALYZE');
  const whole = pg.Client.prototype.query;
  const without = function (this: pg.Client, ...args: unknown[]) {
    const [config, ...rest] = args as [{ name?: string; text?: string }, ...unknown[]];
    if (config.name !== PROJECT) return Reflect.apply(whole, this, args);
    const text = config.text?.replace(`${METERED}, `, '').replace(`, ${METERED_COLUMNS}`, '');
    return Reflect.apply(whole, this, [{ ...config, name: `${PROJECT}_alone`, text }, ...rest]);
  } as typeof whole;
  const costs = { with: [] as number[], without: [] as number[] };
  for (let turn = 0; turn < 8; turn++) {
    const kind = turn % 2 === 0 ? 'with' : 'without';
    pg.Client.prototype.query = kind === 'with' ? whole : without;
    await pool.query(`UPDATE millrace.projections SET txid = '0', inside_txid = '0', record_id = 0 WHERE name = 'rollups'`);
    const startedMs = performance.now();
    for (let hasMore = true; hasMore; ) {
      const projected = await projectRollups(pool);
      hasMore = projected.kind === 'projected' && projected.hasMore;
    }
    costs[kind].push(((performance.now() - startedMs) * 1_000) / (jobs * (turns + 2)));
  }
  pg.Client.prototype.query = whole;
  await pool.end();
  return median(costs.with) - median(costs.without);
}

const TICK_US = 10_000;

/** The processor time of the server and of all its processes, those that have ended included. */
function ticksOf(server: number): number {
  const children = readFileSync(`/proc/${server}/task/${server}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children.map(Number).reduce((sum, pid) => sum + statOf(pid), statOf(server));
}

function statOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0);
  } catch {
    return 0;
  }
}

async function postmasterOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return Number(readFileSync(`/proc/${rows[0].pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]);
}
