import { describe, expect, it, onTestFinished } from 'vitest';
import { EventHub, type JobFacts } from '../../src/engine/events.ts';
import { observeExecution } from '../../src/platform/execution-telemetry.ts';
import { createLog, type LogLine } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { type Span, Tracer } from '../../src/telemetry/trace.ts';

function observed() {
  const events = new EventHub();
  const lines: LogLine[] = [];
  const spans: Span[] = [];
  const metrics = new Metrics();
  const log = createLog((line) => lines.push(line));
  const stop = observeExecution(events, { metrics, log, tracer: new Tracer((span) => spans.push(span)) });
  onTestFinished(stop);
  const read = async (series: string): Promise<number> => {
    const line = (await metrics.text()).split('\n').find((each) => each.startsWith(`${series} `));
    return Number(line?.slice(series.length + 1) ?? 0);
  };
  const steps = () => lines.map(({ current_state, next_state, reason }) => `${current_state}>${next_state} ${reason}`);
  return { events, lines, spans, read, steps, stop };
}

const job = (facts: Partial<JobFacts> = {}): JobFacts => ({
  ...{ jobId: 'j1', type: 'forgerun.simulated', attempt: 1, orgId: 'c1', createdAtMs: Date.now() },
  ...{ tags: { work_kind: 'SUCCESS_FAST' }, ...facts },
});

const STOPPED = { category: 'SYSTEM', code: 'WORKER_STOPPED', message: 'stopped' } as const;
const LOST = { category: 'SYSTEM', code: 'WORKER_LOST', message: 'silent' } as const;
const TEMPORARY = { category: 'TEMPORARY', code: 'X', message: 'm' } as const;

describe('what is told of jobs of the execution API', () => {
  it('is nothing of other jobs, and nothing once it was stopped', async () => {
    const { events, lines, read, stop } = observed();
    events.emit('started', job({ type: 'mail' }));
    events.emit('staged', { jobs: [{ ...job({ type: 'mail' }), from: 'delayed' }] });
    stop();
    events.emit('started', job());
    expect(lines).toEqual([]);
    expect(await read('jobs_running_total')).toBe(0);
  });

  it('counts those that run here now', async () => {
    const { events, read } = observed();
    for (const jobId of ['a', 'b', 'c', 'd']) events.emit('started', job({ jobId }));
    expect(await read('jobs_running')).toBe(4);
    events.emit('completed', { ...job({ jobId: 'a' }), output: null });
    events.emit('failed', { ...job({ jobId: 'b' }), state: 'failed', failure: TEMPORARY, delayMs: null });
    events.emit('cancelled', job({ jobId: 'c' }));
    events.emit('lost', job({ jobId: 'd' }));
    expect(await read('jobs_running')).toBe(0);
    const ends = ['jobs_succeeded_total', 'jobs_failed_total', 'jobs_canceled_total'].map(read);
    expect(await Promise.all(ends)).toEqual([1, 1, 1]);
  });

  it('is a line and a count, and no change of state, where a claim ended before its start [C22]', async () => {
    const { events, lines, read } = observed();
    events.emit('unclaimed', job());
    expect(lines).toMatchObject([{ message: 'job.lease_expired', level: 'warn', job_id: 'j1', current_state: 'QUEUED' }]);
    expect(lines[0]).not.toHaveProperty('next_state');
    expect(await read('leases_expired_total')).toBe(1);
  });

  it('is a failure and a retry where a stopping worker gave a job back', async () => {
    const { events, read, steps } = observed();
    events.emit('failed', { ...job(), state: 'retrying', failure: STOPPED, delayMs: 0 });
    expect(steps()).toEqual(['RUNNING>FAILED worker_stopped', 'FAILED>QUEUED automatic']);
    expect(await read('jobs_retried_total{by="policy"}')).toBe(1);
    expect(await read('jobs_queued_total')).toBe(1);
  });

  it('is a retry when its backoff has passed, and no sooner', async () => {
    const { events, read, steps } = observed();
    events.emit('failed', { ...job(), state: 'retrying', failure: TEMPORARY, delayMs: 500 });
    expect(steps()).toEqual(['RUNNING>FAILED failure']);
    events.emit('staged', { jobs: [{ ...job(), from: 'retrying' }] });
    expect(steps()).toEqual(['RUNNING>FAILED failure', 'FAILED>QUEUED automatic']);
    expect(await read('jobs_retried_total{by="policy"}')).toBe(1);
  });

  it('is an entry into the queue for a deferred job, but not for one that waited between attempts', async () => {
    const { events, read, steps } = observed();
    events.emit('staged', {
      jobs: [
        { ...job({ attempt: 0 }), from: 'delayed' },
        { ...job({ attempt: 1 }), from: 'delayed' },
      ],
    });
    expect(steps()).toEqual(['CREATED>QUEUED undefined']);
    expect(await read('jobs_queued_total')).toBe(1);
  });

  it('is a failure with its reason where a worker fell silent', async () => {
    const { events, read, lines } = observed();
    events.emit('rescued', { ...job(), state: 'failed', failure: LOST, delayMs: null });
    expect(lines[0]).toMatchObject({ reason: 'worker_lost', error_code: 'WORKER_LOST', job_id: 'j1', client_id: 'c1' });
    expect(await read('jobs_failed_total')).toBe(1);
    expect(await read('job_execution_seconds_count')).toBe(0);
  });

  it('measures the wait from the moment a job was due', async () => {
    const { events, read } = observed();
    const started = (facts: JobFacts, executionAt: string | null) => {
      events.emit('started', facts);
      const fields = { execution_at: executionAt };
      events.emit('log', { ...facts, level: 'info', message: 'execution.started', fields });
    };
    const hourAgo = Date.now() - 3_600_000;
    started(job({ jobId: 'a', createdAtMs: hourAgo }), new Date().toISOString());
    expect(await read('job_queue_wait_seconds_sum')).toBeLessThan(10);
    started(job({ jobId: 'b', createdAtMs: hourAgo }), null);
    expect(await read('job_queue_wait_seconds_sum')).toBeGreaterThan(3_599);
    started(job({ jobId: 'c', attempt: 2, createdAtMs: hourAgo }), null);
    expect(await read('job_queue_wait_seconds_count')).toBe(2);
  });

  it('traces nothing for a job that belongs to no trace', () => {
    const { events, spans } = observed();
    events.emit('started', job());
    events.emit('log', { ...job(), level: 'debug', message: 'execution.started', fields: {} });
    events.emit('completed', { ...job(), output: null });
    expect(spans).toEqual([]);
  });
});
