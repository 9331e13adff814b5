import { describe, expect, it, onTestFinished } from 'vitest';
import { allEnded, Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

const JOBS = 900;

/** The sessions of the library on this database, with what they are for; those of the test itself are left out. */
async function sessions(own: ReadonlySet<number>): Promise<Map<number, string>> {
  const { rows } = await bench.ledger.db.maintenance.query<{ pid: number; name: string }>(
    `SELECT pid, application_name AS name FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE 'millrace%'`,
  );
  return new Map(rows.filter(({ pid }) => !own.has(pid)).map(({ pid, name }) => [pid, name]));
}

/** The server may show a session for a moment after the process has left it, so only those count that so many looks in a row have seen. */
const LASTING = 10;

function mostLasting(looks: readonly ReadonlyMap<number, string>[]): string[] {
  let most: string[] = [];
  for (let end = LASTING; end <= looks.length; end++) {
    const inRow = looks.slice(end - LASTING, end);
    const names = [...(inRow[0] ?? [])].filter(([pid]) => inRow.every((look) => look.has(pid))).map(([, name]) => name);
    // While the worker starts, a second session holds its lock until the heartbeat has taken over.
    const isStarting = names.filter((name) => name === 'millrace heartbeat').length > 1;
    if (!isStarting && names.length > most.length) most = names;
  }
  return most;
}

async function ownPids(): Promise<Set<number>> {
  const { rows } = await bench.ledger.db.maintenance.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'millrace%'`,
  );
  return new Set(rows.map(({ pid }) => pid));
}

describe('a process that works', () => {
  it('has ten database sessions at most once its heartbeat is at work, whatever its handlers and callers do', async () => {
    const own = await ownPids();
    const failing = () => Promise.reject(new Error('try again'));
    const millrace = await bench.work(
      {
        parent: async (context) => {
          await context.reportProgress(50);
          await context.checkpoint({ half: true });
          await context.spawn({ type: 'child', payload: {} });
        },
        child: () => 1,
        failing,
      },
      { concurrency: 50 },
    );
    const looks: Map<number, string>[] = [];
    let isDone = false;
    const watching = until('the jobs have ended', async () => {
      looks.push(await sessions(own));
      return isDone && looks.length >= LASTING;
    });
    onTestFinished(() => {
      isDone = true;
      return watching;
    });
    const types = ['parent', 'failing', 'child'];
    const submissions = Array.from({ length: JOBS }, (_, n) => ({
      type: types[n % types.length] as string,
      payload: {},
      maxAttempts: 1,
    }));
    const { results } = await millrace.submitMany(submissions);
    const singles = submissions.slice(0, 200).map((submission) => millrace.submit(submission));
    const ids = [...results, ...(await Promise.all(singles))].map(({ jobId }) => jobId as string);
    const reads = ids.slice(0, 200).map((id) => millrace.get(id, { includeHistory: true }));
    await Promise.all([...reads, ...ids.map((id) => millrace.waitFor(id))]);
    isDone = true;
    await watching;
    const most = mostLasting(looks);
    expect(most.length, most.toSorted().join(', ')).toBeLessThanOrEqual(10);
    expect(most).toContain('millrace listener');
  });

  it('ends other jobs while one waits for a row that somebody holds', async () => {
    const begun = new Gate();
    const millrace = await bench.work(
      {
        held: async (context) => {
          await begun.pass();
          await Promise.all([1, 2, 3, 4].map((percent) => context.reportProgress(percent)));
        },
        free: async (context) => {
          await context.checkpoint({});
          await context.spawn({ type: 'none', payload: {} });
          throw new Error('ends by a statement of the same pool');
        },
      },
      { concurrency: 5 },
    );
    const { jobId } = await millrace.submit({ type: 'held', payload: {} });
    await begun.reached();
    const holder = await bench.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [jobId]);
    begun.open();
    const { results } = await millrace.submitMany(Array.from({ length: 20 }, () => ({ type: 'free', payload: {}, maxAttempts: 1 })));
    for (const { state, lastFailure } of await allEnded(millrace, results))
      expect([state, lastFailure?.message]).toEqual(['dead_letter', 'ends by a statement of the same pool']);
    await holder.query('COMMIT');
    expect(await millrace.waitFor(jobId)).toMatchObject({ state: 'completed' });
  });
});
