// The cost of the audit trail: the same governed jobs with the loop that writes the trail, and while that loop is held up, in turns. The rate
// is of the jobs alone; the processor time is of their whole life, until their rows are written.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Millrace } from '../src/index.ts';
import { median } from './workload.ts';

export const AUDIT_SHARE = 0.9;

export type AuditFigures = {
  /** Jobs a second, while they were submitted and run. */
  readonly plain: number;
  readonly audited: number;
  /** Of the two rates of a turn. */
  readonly share: number;
  /** The processor time of a job, in microseconds. */
  readonly plainCpu: number;
  readonly auditedCpu: number;
};

const ROWS_PER_JOB = 3;
const TICKS_PER_SECOND = 100;

type Run = { perSecond: number; cpu: number };

/** Median of turns. In each, both kinds run on fresh databases. */
export async function auditShare(
  fresh: (name: string) => Promise<string>,
  { jobs, turns }: { jobs: number; turns: number },
): Promise<AuditFigures> {
  const runs: { plain: Run; audited: Run }[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const plain = await live(await fresh('audit'), jobs, { isAudited: false });
    runs.push({ plain, audited: await live(await fresh('audit'), jobs, { isAudited: true }) });
  }
  const of = (pick: (run: { plain: Run; audited: Run }) => number) => Math.round(median(runs.map(pick)));
  return {
    plain: of(({ plain }) => plain.perSecond),
    audited: of(({ audited }) => audited.perSecond),
    share: median(runs.map(({ plain, audited }) => audited.perSecond / plain.perSecond)),
    plainCpu: of(({ plain }) => plain.cpu),
    auditedCpu: of(({ audited }) => audited.cpu),
  };
}

async function live(url: string, jobs: number, { isAudited }: { isAudited: boolean }): Promise<Run> {
  const client = new pg.Client(url);
  await client.connect();
  const millrace = await Millrace.open({ database: url, concurrency: 64 });
  const free = isAudited ? () => {} : await holdUp(client);
  let done = 0;
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  millrace.register({ type: 'noop', handler: () => {} });
  millrace.on('completed', () => {
    if (++done === jobs) finish();
  });
  await millrace.start();
  const server = await postmasterOf(client);
  const [before, startedMs] = [cpuMicros(server), performance.now()];
  let next = 0;
  const caller = async () => {
    while (next < jobs)
      await millrace.submit({
        type: 'noop',
        payload: { i: next++, to: 'someone@example.com' },
        category: 'maintenance',
      });
  };
  await Promise.all(Array.from({ length: 64 }, caller));
  await finished;
  const perSecond = jobs / ((performance.now() - startedMs) / 1_000);
  if (isAudited) await untilAudited(client, jobs * ROWS_PER_JOB);
  free();
  const cpu = (cpuMicros(server) - before) / jobs;
  await millrace.close({ grace: '5s' });
  await client.end();
  return { perSecond, cpu };
}

/** Reserves the trail for a process that does not exist, again and again, as a process at work would. */
async function holdUp(client: pg.Client): Promise<() => void> {
  const hold = () =>
    client.query(
      `UPDATE millrace.projections SET holder = gen_random_uuid(), held_until = clock_timestamp() + interval '4.5 s' WHERE name = 'audit'`,
    );
  await hold();
  const timer = setInterval(hold, 1_000);
  return () => clearInterval(timer);
}

async function untilAudited(client: pg.Client, rows: number): Promise<void> {
  const text = `SELECT (SELECT last_id FROM millrace.audit_state) >= $1::int8 AND NOT EXISTS (
    SELECT FROM millrace.records WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'audit')) AS is_done`;
  while (!(await client.query(text, [rows])).rows[0].is_done) await sleep(100);
}

/** The server that a session belongs to, if it runs on this machine. */
async function postmasterOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${rows[0].pid}/status`, 'utf8'))?.[1]);
}

/** Processor time of this process and of the server, with all processes that the server has and had. */
function cpuMicros(server: number): number {
  const { user, system } = process.cpuUsage();
  const ticks = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, pid) => sum + ticksOf(pid, server), 0);
  return user + system + (ticks / TICKS_PER_SECOND) * 1_000_000;
}

function ticksOf(pid: string, server: number): number {
  try {
    // After the name, which may contain anything: state, parent, ..., utime (11), stime, cutime, cstime.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    const own = Number(fields[11]) + Number(fields[12]);
    if (Number(pid) === server) return own + Number(fields[13]) + Number(fields[14]);
    return Number(fields[1]) === server ? own : 0;
  } catch {
    return 0;
  }
}
