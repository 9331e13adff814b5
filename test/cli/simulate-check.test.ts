import { describe, expect, it } from 'vitest';
import { KINDS, type WorkKind } from '../../src/core/execution/kinds.ts';
import { EXECUTION_STATES, type ExecutionState, isAllowed, outcomeOf } from '../../src/core/execution/states.ts';
import { judge, judgeReport, judgeView } from '../../src/simulator/check.ts';
import type { PlannedJob } from '../../src/simulator/plan.ts';
import { Verifier } from '../../src/simulator/verifier.ts';
import type { EventView, JobView, ReportRow } from '../../src/simulator/wire.ts';
import type { Observed } from '../../src/simulator/world.ts';

const NAMES: Readonly<Record<ExecutionState, string>> = {
  CREATED: 'job.created',
  QUEUED: 'job.queued',
  ASSIGNED: 'job.assigned',
  RUNNING: 'job.running',
  SUCCEEDED: 'job.succeeded',
  FAILED: 'job.failed',
  CANCELED: 'job.canceled',
};
const AT_MS = Date.parse('2024-01-15T10:30:00Z');
const time = (secondsIn: number) => new Date(AT_MS + secondsIn * 1_000).toISOString();

function eventsThrough(kind: WorkKind, ...states: ExecutionState[]): EventView[] {
  return states.map((state, index) => ({
    ...{ event_id: `event-${index}`, job_id: 'one', event_name: NAMES[state], scenario: kind, timestamp: time(index) },
    ...{ prev_state: states[index - 1] ?? null, next_state: state },
  }));
}

const PATH = ['CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'SUCCEEDED'] as const;

/** A job of the kind as the server reports it when all is well. */
function rowOf(kind: WorkKind = 'SUCCESS_FAST', ...states: ExecutionState[]): ReportRow {
  const events = eventsThrough(kind, ...(states.length === 0 ? PATH : states));
  const { next_state: state, timestamp } = events.at(-1) as EventView;
  return {
    ...{ job_id: 'one', type: 'EXECUTE', work_kind: kind, state, outcome: outcomeOf(state), attempt: 1 },
    ...{
      execution_at: null,
      started_at: time(3),
      finished_at: timestamp,
      duration_ms: Date.parse(timestamp) - AT_MS - 3_000,
    },
    failure: state === 'FAILED' ? { code: 'SIMULATED_FAILURE', message: '', retryable: false } : null,
    events,
  };
}

function planOf(kind: WorkKind = 'SUCCESS_FAST'): PlannedJob {
  return { no: 0, kind, type: 'EXECUTE', client: 0, key: 'job-0', executionInMs: null };
}

const seen = (kind?: WorkKind, rest: Partial<Observed> = {}): Observed => ({
  ...{ plan: planOf(kind), jobs: [{ jobId: 'one', expected: null, runs: 1 }] },
  ...{ refusal: null, missed: 0, problems: [], notes: [], ...rest },
});

function problemsOf(row: ReportRow, rest: Partial<Parameters<typeof judge>[0]> = {}): string[] {
  const observed = seen(row.work_kind as WorkKind);
  const job = observed.jobs[0] as Observed['jobs'][number];
  return judge({ observed, job, row, expected: KINDS[observed.plan.kind].expected, timeScale: 1, ...rest });
}

describe('a job', () => {
  it('that ended as its kind says has nothing wrong', () => {
    expect(problemsOf(rowOf())).toEqual([]);
    expect(problemsOf(rowOf('FAIL_IMMEDIATE', 'CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'FAILED'))).toEqual([]);
  });

  it('that ended otherwise is found, and so is one expected to', () => {
    const failed = rowOf('SUCCESS_FAST', 'CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'FAILED');
    expect(problemsOf(failed)).toContain('ended FAILED, expected SUCCEEDED');
    expect(problemsOf(rowOf(), { expected: 'FAILED' })).toEqual(['ended SUCCEEDED, expected FAILED']);
  });

  it.each(
    EXECUTION_STATES.flatMap((from) => EXECUTION_STATES.map((to) => [from, to] as const)).filter(([from, to]) => !isAllowed(from, to)),
  )('that went from %s to %s is found', (from, to) => {
    const events = eventsThrough('SUCCESS_FAST', 'CREATED', from, to);
    expect(problemsOf({ ...rowOf(), state: to, events })).toContain(`it went ${from} -> ${to}, which is forbidden`);
  });

  it('with a broken chain of events is found', () => {
    const { events, ...row } = rowOf();
    const change = (index: number, other: Partial<EventView>) => ({
      ...row,
      events: events.map((event, at) => (at === index ? { ...event, ...other } : event)),
    });
    expect(problemsOf({ ...row, events: [] })).toContain('has no events');
    expect(problemsOf({ ...row, events: events.slice(1) })).toContain('its first event is CREATED -> QUEUED');
    expect(problemsOf({ ...row, events: events.filter((_, at) => at !== 2) })).toContain('an event leaves ASSIGNED although it was QUEUED');
    expect(problemsOf(change(3, { timestamp: time(2) }))).toContain(`two events at ${time(2)}`);
    expect(problemsOf(change(3, { event_id: 'event-2' }))).toContain('an event id occurs twice');
    expect(problemsOf(change(3, { job_id: 'two' }))).toContain('has an event of another job');
    expect(problemsOf(change(3, { scenario: 'CPU_BURST' }))).toContain('has an event of another kind');
  });

  it('that ran more or less often than it should is found', () => {
    const job = { jobId: 'one', expected: null, runs: 2 };
    expect(problemsOf(rowOf(), { job })).toEqual(['ran 1 times, expected 2', 'shows attempt 1, expected 2']);
  });

  it('queued before its time or more than a second after it is found, unless the server was away', () => {
    const due = (secondsIn: number) => ({ ...rowOf(), execution_at: time(secondsIn) });
    expect(problemsOf(due(1))).toEqual([]);
    expect(problemsOf(due(1.5))).toContain('was queued 500 ms before its time');
    expect(problemsOf(due(3.5))).toContain('was started before its time');
    expect(problemsOf(due(-0.5))).toEqual(['was queued 1500 ms after its time']);
    const away = { fromMs: AT_MS - 1_000, toMs: AT_MS + 500 };
    expect(problemsOf(due(-0.5), { away })).toEqual([]);
    expect(problemsOf(due(-0.5), { away: { ...away, toMs: AT_MS - 400 } })).toEqual(['was queued 1400 ms after the server was up again']);
  });

  it('that failed for another reason than its kind has is found', () => {
    const path = ['CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'FAILED'] as const;
    expect(problemsOf(rowOf('RUNS_OVER_TIMEOUT', ...path))).toEqual(['did not fail with a timeout']);
    expect(problemsOf(rowOf('FAIL_AFTER_RETRYABLE', ...path))).toEqual(['its failure is not marked retryable']);
    expect(problemsOf(rowOf('RETRY_LIMIT_REACHED', ...path))).toContain('its last event is job.failed');
  });

  it('canceled before it ran is not one canceled during its run', () => {
    const row = rowOf('CANCEL_DURING_RUN', 'CREATED', 'QUEUED', 'CANCELED');
    const job = { jobId: 'one', expected: null, runs: null };
    expect(problemsOf(row, { job })).toContain('was canceled from QUEUED, expected RUNNING');
  });

  it('canceled during its run is not one canceled before its start, unless that was to be expected [FR-06.32]', () => {
    const early = rowOf('CANCEL_BEFORE_START', 'CREATED', 'QUEUED', 'CANCELED');
    const claimed = rowOf('CANCEL_BEFORE_START', 'CREATED', 'QUEUED', 'ASSIGNED', 'CANCELED');
    const late = rowOf('CANCEL_BEFORE_START', 'CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'CANCELED');
    const job = { jobId: 'one', expected: null, runs: null };
    for (const row of [early, claimed]) expect(problemsOf(row, { job })).toEqual([]);
    expect(problemsOf(late, { job })).toEqual(['was canceled from RUNNING, expected before its start']);
    expect(problemsOf(late, { job: { ...job, expected: 'CANCELED' } })).toEqual([]);
  });

  it('that succeeded sooner than its kind takes is found [FR-06.20]', () => {
    const hasty = rowOf('SUCCESS_NORMAL');
    expect(hasty.duration_ms).toBe(1_000);
    expect(problemsOf(hasty)).toEqual(['took 1000 ms, expected 10000 at least']);
    expect(problemsOf(hasty, { timeScale: 0.1 })).toEqual([]);
    expect(problemsOf({ ...hasty, duration_ms: 0, started_at: hasty.finished_at }, { timeScale: 0.01 })).toEqual([
      'took 0 ms, expected 100 at least',
    ]);
  });

  it('that failed after progress must have made some [FR-06.23]', () => {
    const kind = 'FAIL_AFTER_PROGRESS';
    const definition = { work_kind: kind, duration_ms: 20_000, should_fail: true, payload_size: 8_192 } as const;
    const row = rowOf(kind, 'CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'FAILED');
    const viewed = (progress: number | null) => judgeView(planOf(kind), { ...row, definition, progress });
    expect(viewed(75)).toEqual([]);
    expect(viewed(50)).toEqual(['ended with a progress of 50, expected 75 at least']);
    expect(viewed(null)).toHaveLength(1);
  });

  it('must be defined by the numbers of its kind, and its own report say what the whole one does', () => {
    const definition = {
      work_kind: 'SUCCESS_FAST',
      duration_ms: 1_000,
      should_fail: false,
      payload_size: 4_096,
    } as const;
    const view: JobView = { ...rowOf(), definition, progress: null };
    expect(judgeView(planOf(), view)).toEqual([]);
    expect(judgeView(planOf(), { ...view, definition: { ...definition, payload_size: 4_000 } })).toHaveLength(1);
    expect(judgeView(planOf(), null)).toEqual(['did not end']);
    const { outcome, finished_at, duration_ms, ...row } = rowOf();
    const report = {
      ...row,
      outcome: 'SUCCESS',
      finished_at: finished_at ?? '',
      duration_ms: duration_ms ?? 0,
    } as const;
    expect(judgeReport(rowOf(), { status: 200, body: report })).toEqual([]);
    expect(judgeReport(rowOf(), { status: 404, body: report })).toEqual(['its report returns 404']);
    expect(judgeReport(rowOf(), { status: 200, body: { ...report, events: [] } })).toHaveLength(1);
  });
});

describe('the verifier', () => {
  const findings = (verifier: Verifier) => {
    verifier.close();
    return verifier.findings.map(({ problem }) => problem);
  };
  const verifierOf = (...entered: Observed[]) => {
    const verifier = new Verifier({ expectations: new Map(), timeScale: 1 });
    for (const observed of entered) verifier.add(observed);
    return verifier;
  };

  it('counts what went as expected and every step that was taken', () => {
    const verifier = verifierOf(seen());
    verifier.check(rowOf());
    expect(findings(verifier)).toEqual([]);
    expect(verifier.kinds()).toMatchObject([{ kind: 'SUCCESS_FAST', driven: 1, asExpected: 1, jobs: 1 }]);
    expect(verifier.pairs()).toHaveLength(49);
    expect(verifier.pairs().filter(({ count }) => count > 0)).toHaveLength(4);
  });

  it('finds a job that was accepted and is reported nowhere, twice, or was never submitted', () => {
    expect(findings(verifierOf(seen()))).toEqual(['was accepted and is not in the report: lost']);
    const twice = verifierOf(seen());
    twice.check(rowOf());
    twice.check(rowOf());
    expect(findings(twice)).toEqual(['is reported twice']);
    const unknown = verifierOf();
    unknown.check(rowOf());
    expect(findings(unknown)).toEqual(['is a job that was never submitted']);
    const shared = verifierOf(seen(), seen());
    shared.check(rowOf());
    expect(findings(shared)).toEqual(['its id was given to two submissions']);
  });

  it('wants a refusal where the kind is to be rejected, and nowhere else', () => {
    const refusal = { status: 400, code: 'RFA_JOB_VALIDATION_FAILED' };
    expect(findings(verifierOf(seen('PAYLOAD_INVALID', { jobs: [], refusal })))).toEqual([]);
    expect(findings(verifierOf(seen('PAYLOAD_INVALID', { jobs: [], refusal: { status: 500, code: null } })))).toHaveLength(1);
    expect(findings(verifierOf(seen('SUCCESS_FAST', { jobs: [], refusal })))).toHaveLength(1);
    expect(findings(verifierOf(seen('PAYLOAD_INVALID')))).toContain('was accepted as one, expected REJECTED');
  });
});
