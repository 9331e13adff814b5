import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { KINDS, WORK_KINDS, type WorkKind } from '../../src/core/execution/kinds.ts';
import { remoteHost } from '../../src/simulator/host.ts';
import { type Run, type RunOptions, runSimulation } from '../../src/simulator/run.ts';
import { useDelivering } from '../http/delivering-server.ts';
import { until } from '../until.ts';
import { isOnlyLate } from './only-late.ts';

const TIME_SCALE = 0.01;
// Timeouts are not scaled: the server shares a process with its callers and the receiver, and no job is to fail for that.
const { profile } = loadConfig({
  environment: { MILLRACE_EXECUTION_BACKOFF_BASE: '10ms', MILLRACE_EXECUTION_BACKOFF_MAX: '50ms' },
  folder: tmpdir(),
}).config.execution;
const server = useDelivering({
  execution: { timeScale: TIME_SCALE, profile },
  environment: { MILLRACE_WEBHOOKS_TIMEOUT: '1s', MILLRACE_WEBHOOKS_MAX_RETRIES: '8' },
});

type Asked = Partial<Omit<RunOptions, 'plan'>> & { kinds: readonly WorkKind[]; jobs: number; clients?: number };

async function simulate({ kinds, jobs, clients = 1, ...rest }: Asked): Promise<Run> {
  return runSimulation(await remoteHost({ url: server.url }), {
    plan: { choice: { order: 'each', kinds }, clients, jobs, seed: 1, farFutureMs: 0 },
    ...{ durationMs: null, pace: { concurrency: 32 }, timeScale: TIME_SCALE, expectations: new Map() },
    ...{ receiver: server.receiver, signal: new AbortController().signal, ...rest },
  });
}

const tallyOf = ({ verifier }: Run, kind: WorkKind) => verifier.tallies.get(kind);
const problemsOf = ({ verifier }: Run) => verifier.findings.filter((finding) => !isOnlyLate(finding));
const steps = ({ verifier }: Run): string[] =>
  verifier
    .pairs()
    .filter(({ count }) => count > 0)
    .map(({ from, to, count }) => `${from} ${to} ${count}`);

describe('a simulated run', { timeout: 180_000 }, () => {
  it('of every kind ten times by ten clients loses nothing, doubles nothing and sees no forbidden step [FR-01.04] [FR-02.02] [FR-04.02]', async () => {
    const run = await simulate({ kinds: WORK_KINDS, jobs: 10 * WORK_KINDS.length, clients: 10 });
    expect(problemsOf(run)).toEqual([]);
    const kinds = run.verifier.kinds();
    expect(kinds.map(({ kind }) => kind)).toEqual(WORK_KINDS);
    const late = (kind: WorkKind) => run.verifier.findings.filter((finding) => finding.kind === kind).length;
    for (const { kind, driven, asExpected } of kinds) {
      expect(asExpected, kind).toBeLessThanOrEqual(driven);
      expect(asExpected, kind).toBeGreaterThanOrEqual(driven - late(kind));
    }
    expect(run.verifier.pairs().filter(({ isAllowed, count }) => !isAllowed && count > 0)).toEqual([]);
    const allowed = run.verifier.pairs().filter(({ isAllowed, count }) => isAllowed && count > 0);
    expect(allowed.length).toBeGreaterThanOrEqual(8);
    expect(run.notes).toEqual(['restart: not performed (see --embedded and --restart)']);
    const jobs = kinds.reduce((sum, tally) => sum + tally.jobs, 0);
    expect(run.stats.submitted).toBe(jobs);
    expect(run.stats.runMs.count + (run.stats.ended.get('CANCELED') ?? 0)).toBeGreaterThanOrEqual(jobs);
  });

  it('retries once where the second attempt succeeds, and until it is refused where none does', async () => {
    const once = await simulate({ kinds: ['RETRY_ON_FAIL'], jobs: 1 });
    expect(problemsOf(once)).toEqual([]);
    expect(steps(once)).toContain('FAILED QUEUED 1');
    const limit = await simulate({ kinds: ['RETRY_LIMIT_REACHED'], jobs: 1 });
    expect(problemsOf(limit)).toEqual([]);
    expect(steps(limit)).toContain('FAILED QUEUED 3');
    expect(limit.stats.exchanges.get('POST /jobs/:job_id/retry 409')).toBe(1);
  });

  it('submits duplicates with one key and with two', async () => {
    const same = await simulate({ kinds: ['DUPLICATE_SUBMIT_SAME_KEY'], jobs: 3 });
    expect(problemsOf(same)).toEqual([]);
    expect(tallyOf(same, 'DUPLICATE_SUBMIT_SAME_KEY')?.jobs).toBe(3);
    const other = await simulate({ kinds: ['DUPLICATE_SUBMIT_DIFFERENT_KEY'], jobs: 3 });
    expect(problemsOf(other)).toEqual([]);
    expect(tallyOf(other, 'DUPLICATE_SUBMIT_DIFFERENT_KEY')?.jobs).toBe(6);
  });

  it('cancels while the job runs', async () => {
    const run = await simulate({ kinds: ['CANCEL_DURING_RUN'], jobs: 2 });
    expect(problemsOf(run)).toEqual([]);
    expect(steps(run)).toContain('RUNNING CANCELED 2');
  });

  it('cancels before the job starts, however many it takes to find one that waits [FR-06.32]', async () => {
    const run = await simulate({ kinds: ['CANCEL_BEFORE_START'], jobs: 3 });
    expect(problemsOf(run)).toEqual([]);
    expect(tallyOf(run, 'CANCEL_BEFORE_START')).toMatchObject({ driven: 3, asExpected: 3 });
    const before = run.verifier.pairs().filter(({ from, to }) => to === 'CANCELED' && from !== 'RUNNING');
    expect(before.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThanOrEqual(3);
  });

  it('finds a server out that is done at once', async () => {
    const run = await simulate({ kinds: ['SUCCESS_SLOW'], jobs: 1, timeScale: 1 });
    expect(run.verifier.findings).toMatchObject([{ problem: expect.stringMatching(/^took \d+ ms, expected 90000 at least$/) }]);
  });

  it('names a callback to the receiver where the kind is about webhooks, and judges what was delivered there', async () => {
    const kinds = WORK_KINDS.filter((kind) => KINDS[kind].drive === 'webhook');
    const before = server.receiver.received().length;
    const run = await simulate({ kinds, jobs: kinds.length });
    expect(problemsOf(run)).toEqual([]);
    expect(run.notes).toEqual([]);
    const arrived = server.receiver.received().slice(before);
    const modes = new Set(arrived.map(({ path }) => path.split(/[/?]/)[1]));
    expect([...modes].sort()).toEqual(['5xx', '5xx-then-ok', 'ok', 'slow', 'timeout']);
    expect(run.deliveries).toBe(server.receiver.received().length);
  });

  it('restarts the server when the time of a job has come, where it can', async () => {
    const fell: number[] = [];
    const host = {
      ...(await remoteHost({ url: server.url })),
      restart: async (untilMs: number) => {
        await server.worker('none');
        const fromMs = Date.now();
        await until('the time of the restart has come', () => Date.now() > untilMs);
        await server.worker('start');
        fell.push(untilMs);
        return { fromMs, toMs: Date.now() };
      },
    };
    const run = await runSimulation(host, {
      plan: {
        choice: { order: 'each', kinds: ['SCHEDULED_LATE_RECOVERY'] },
        clients: 2,
        jobs: 4,
        seed: 1,
        farFutureMs: 0,
      },
      ...{
        durationMs: null,
        pace: { concurrency: 1 },
        timeScale: TIME_SCALE,
        expectations: new Map(),
        receiver: server.receiver,
      },
      signal: new AbortController().signal,
    });
    expect(problemsOf(run)).toEqual([]);
    expect(fell).toHaveLength(1);
    expect(run.notes).toEqual([]);
  });

  it('goes on for a duration at a rate', async () => {
    const pace = { ratePerSecond: 100 };
    const jobs = Number.POSITIVE_INFINITY;
    const run = await simulate({ kinds: ['SUCCESS_FAST'], jobs, durationMs: 500, pace, clients: 2 });
    expect(problemsOf(run)).toEqual([]);
    const driven = tallyOf(run, 'SUCCESS_FAST')?.driven ?? 0;
    expect(driven).toBeGreaterThan(0);
    expect(driven).toBeLessThanOrEqual(51);
  });

  it('says what differs when a kind is expected to end otherwise', async () => {
    const expectations = new Map([['SUCCESS_FAST', 'FAILED']] as const);
    const run = await simulate({ kinds: ['SUCCESS_FAST', 'CPU_BURST'], jobs: 2, expectations });
    expect(run.verifier.findings).toMatchObject([{ kind: 'SUCCESS_FAST', problem: 'ended SUCCEEDED, expected FAILED' }]);
    expect(tallyOf(run, 'CPU_BURST')).toMatchObject({ driven: 1, asExpected: 1 });
    expect(tallyOf(run, 'SUCCESS_FAST')).toMatchObject({ driven: 1, asExpected: 0 });
  });

  it('ends without a verdict when it is interrupted', async () => {
    const stop = new AbortController();
    const running = simulate({ kinds: ['SCHEDULED_FAR_FUTURE'], jobs: 1, signal: stop.signal });
    await until(
      'the job for the far future has been counted',
      () => countOf('SCHEDULED_FAR_FUTURE'),
      (count) => count > 0,
    );
    stop.abort();
    expect(await running).toMatchObject({ wasInterrupted: true });
  });
});

async function countOf(kind: WorkKind): Promise<number> {
  const text = `SELECT count(*)::int AS count FROM millrace.jobs WHERE tags->>'work_kind' = $1 AND state = 'delayed'`;
  const { rows } = await server.ledger.db.api.query<{ count: number }>(text, [kind]);
  return rows[0]?.count ?? 0;
}
