import { describe, expect, it, onTestFinished } from 'vitest';
import { EventHub, type JobFacts } from '../../src/engine/events.ts';
import { type LookUp, observeExecution, observeExecutionLoops } from '../../src/platform/execution-telemetry.ts';
import { createLog, type LogLine } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { SinkTracer, type Span } from '../../src/telemetry/trace.ts';
import { until } from '../until.ts';

const TRACE = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

function observed(lookUp: LookUp = async () => null) {
  const events = new EventHub();
  const lines: LogLine[] = [];
  const spans: Span[] = [];
  const metrics = new Metrics();
  const log = createLog((line) => lines.push(line));
  const stop = observeExecution(events, { metrics, log, tracer: new SinkTracer((span) => spans.push(span)) }, lookUp);
  onTestFinished(stop);
  const steps = () => lines.map(({ current_state, next_state, reason }) => `${current_state}>${next_state} ${reason}`);
  return { events, lines, spans, steps, stop };
}

const job = (facts: Partial<JobFacts> = {}): JobFacts => ({
  ...{ jobId: 'j1', type: 'forgerun.simulated', attempt: 1, orgId: 'c1', createdAtMs: Date.now() },
  ...{ tags: { work_kind: 'SUCCESS_FAST' }, ...facts },
});

const STOPPED = { category: 'SYSTEM', code: 'WORKER_STOPPED', message: 'stopped' } as const;
const LOST = { category: 'SYSTEM', code: 'WORKER_LOST', message: 'silent' } as const;
const TEMPORARY = { category: 'TEMPORARY', code: 'X', message: 'm' } as const;

describe('what is told of jobs of the execution API', () => {
  it('is nothing of other jobs, and nothing once it was stopped', () => {
    const { events, lines, stop } = observed();
    events.emit('started', job({ type: 'mail' }));
    events.emit('staged', { jobs: [{ ...job({ type: 'mail' }), from: 'delayed' }] });
    stop();
    events.emit('started', job());
    expect(lines).toEqual([]);
  });

  it('is a line and a count, and no change of state, where a claim ended before its start [C22]', () => {
    const { events, lines } = observed();
    events.emit('unclaimed', job());
    expect(lines).toMatchObject([{ message: 'job.lease_expired', level: 'warn', job_id: 'j1', current_state: 'QUEUED' }]);
    expect(lines[0]).not.toHaveProperty('next_state');
  });

  it('is a failure and a retry where a stopping worker gave a job back', () => {
    const { events, steps } = observed();
    events.emit('failed', { ...job(), state: 'retrying', failure: STOPPED, delayMs: 0 });
    expect(steps()).toEqual(['RUNNING>FAILED worker_stopped', 'FAILED>QUEUED automatic']);
  });

  it('is a retry when its backoff has passed, and no sooner', () => {
    const { events, steps } = observed();
    events.emit('failed', { ...job(), state: 'retrying', failure: TEMPORARY, delayMs: 500 });
    expect(steps()).toEqual(['RUNNING>FAILED failure']);
    events.emit('staged', { jobs: [{ ...job(), from: 'retrying' }] });
    expect(steps()).toEqual(['RUNNING>FAILED failure', 'FAILED>QUEUED automatic']);
  });

  it('is an entry into the queue for a deferred job, but not for one that waited between attempts', () => {
    const { events, steps } = observed();
    events.emit('staged', {
      jobs: [
        { ...job({ attempt: 0 }), from: 'delayed' },
        { ...job({ attempt: 1 }), from: 'delayed' },
      ],
    });
    expect(steps()).toEqual(['CREATED>QUEUED undefined']);
  });

  it('is a failure with its reason where a worker fell silent', () => {
    const { events, lines } = observed();
    events.emit('rescued', { ...job(), state: 'failed', failure: LOST, delayMs: null });
    expect(lines[0]).toMatchObject({ reason: 'worker_lost', error_code: 'WORKER_LOST', job_id: 'j1', client_id: 'c1' });
  });

  it('is the same where only the loops of the process concern its jobs, as with modules of a user [FR-16.30] [FR-16.31]', () => {
    const lines: LogLine[] = [];
    const events = new EventHub();
    const log = createLog((line) => lines.push(line));
    onTestFinished(observeExecutionLoops(events, { metrics: new Metrics(), log, tracer: new SinkTracer(null) }));
    events.emit('rescued', { ...job(), state: 'failed', failure: LOST, delayMs: null });
    events.emit('rescued', { ...job({ type: 'mail' }), state: 'failed', failure: LOST, delayMs: null });
    events.emit('staged', { jobs: [{ ...job(), from: 'retrying' }] });
    expect(lines.map(({ message }) => message)).toEqual(['job.failed', 'job.retried']);
  });

  it.each([
    ['rescued', { state: 'retrying', failure: LOST, delayMs: 500 }, 'FAILED'],
    ['failed', { state: 'failed', failure: TEMPORARY, delayMs: null }, 'FAILED'],
    ['cancelled', {}, 'CANCELED'],
  ] as const)('is a report where a job is %s whose handler this process did not see', async (event, facts, outcome) => {
    const { events, spans } = observed(async () => ({ state: 'failed', traceparent: TRACE }));
    events.emit(event, { ...job(), ...facts } as never);
    await until('the report is written', () => spans.length > 0);
    expect(spans).toMatchObject([{ name: 'report', traceId: 'a'.repeat(32), attributes: { job_id: 'j1', outcome } }]);
  });

  it('is a report of a cancel where this process lost a job to one; a rescuer reports for itself', async () => {
    const { events, spans } = observed(async ({ jobId }) => ({ state: jobId === 'j1' ? 'retrying' : 'cancelled', traceparent: TRACE }));
    for (const lost of [job(), job({ jobId: 'j2' })]) {
      events.emit('started', lost);
      events.emit('log', { ...lost, level: 'debug', message: 'execution.started', fields: { traceparent: TRACE } });
      events.emit('lost', lost);
    }
    const reports = () => spans.filter(({ name }) => name === 'report');
    await until('the second job is reported', () => reports().length > 0);
    expect(reports()).toMatchObject([{ attributes: { job_id: 'j2', outcome: 'CANCELED' } }]);
  });

  it('traces nothing for a job that belongs to no trace', () => {
    const { events, spans } = observed();
    events.emit('started', job());
    events.emit('log', { ...job(), level: 'debug', message: 'execution.started', fields: {} });
    events.emit('completed', { ...job(), output: null });
    expect(spans).toEqual([]);
  });
});
