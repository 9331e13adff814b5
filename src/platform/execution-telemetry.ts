import { EXECUTION_TYPE, isWorkKind, KINDS } from '../core/execution/kinds.ts';
import type { ExecutionOutcome } from '../core/execution/states.ts';
import type { Failure } from '../core/failure.ts';
import type { EngineEvents, EventHub, JobFacts, StagedJob } from '../engine/events.ts';
import { observeStatements } from '../ledger/driver/statement.ts';
import { ExecutionMetrics } from '../telemetry/execution-metrics.ts';
import type { LogFields } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { nowMs, type OpenSpan } from '../telemetry/trace.ts';

type EventOfJob = 'started' | 'log' | 'completed' | 'failed' | 'rescued' | 'cancelled' | 'lost' | 'unclaimed';

/** Records metrics, log lines and traces of the execution API's jobs in this process. Returns a function that stops it. */
export function observeExecution(events: EventHub, telemetry: Telemetry): () => void {
  const observer = new ExecutionObserver(telemetry);
  const follow = <E extends EventOfJob>(event: E, listener: (facts: EngineEvents[E]) => void): (() => void) =>
    events.on(event, (facts) => {
      if (facts.type === EXECUTION_TYPE) listener(facts);
    });
  observeStatements(({ failed, sqlState }) => {
    if (failed) observer.metrics.databaseFailed(sqlState);
  });
  const stops = [
    follow('started', (facts) => observer.started(facts)),
    follow('log', (facts) => observer.logged(facts)),
    follow('completed', (facts) => observer.completed(facts)),
    follow('failed', (facts) => observer.failed(facts)),
    follow('rescued', (facts) => observer.failed(facts)),
    follow('cancelled', (facts) => observer.cancelled(facts)),
    follow('lost', (facts) => observer.lost(facts)),
    follow('unclaimed', (facts) => observer.unclaimed(facts)),
    events.on('staged', ({ jobs }) => {
      for (const job of jobs) if (job.type === EXECUTION_TYPE) observer.staged(job);
    }),
    () => observeStatements(null),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** An attempt that runs in this process. */
type Run = { readonly startedAtMs: number; readonly assignedMs: number; traceparent?: string; span?: OpenSpan };

/** The name of an event of the execution API, and the states before and after it. */
type Step = readonly [event: string, from: string, to: string];

class ExecutionObserver {
  readonly metrics: ExecutionMetrics;
  readonly #telemetry: Telemetry;
  readonly #runs = new Map<string, Run>();

  constructor(telemetry: Telemetry) {
    this.#telemetry = telemetry;
    this.metrics = new ExecutionMetrics(telemetry);
  }

  /** A job that one statement claimed and started has an assigned time of zero. */
  started({ assignedMs = 0, ...facts }: EngineEvents['started']): void {
    this.#runs.set(runOf(facts), { startedAtMs: nowMs(), assignedMs });
    this.metrics.running(this.#runs.size);
    this.metrics.started(assignedMs / 1_000);
    this.#log(['job.assigned', 'QUEUED', 'ASSIGNED'], facts);
    this.#log(['job.running', 'ASSIGNED', 'RUNNING'], facts);
  }

  /** The first log line of the handler carries the due time and the trace from the job's definition. */
  logged({ level, message, fields, ...facts }: EngineEvents['log']): void {
    const write = level === 'info' || level === 'debug' ? 'info' : level;
    this.#telemetry.log[write](message, { ...fieldsOf(facts), ...fields });
    const run = this.#runs.get(runOf(facts));
    if (message !== 'execution.started' || run === undefined) return;
    if (facts.attempt === 1) this.metrics.waited(secondsSince(dueAtMs(facts, fields), run.startedAtMs));
    if (typeof fields.traceparent !== 'string') return;
    const { tracer } = this.#telemetry;
    const assign = tracer.start('assign', fields.traceparent, run.startedAtMs - run.assignedMs);
    assign.end(attributesOf(facts));
    run.traceparent = fields.traceparent;
    run.span = tracer.start('run', assign.traceparent, run.startedAtMs);
  }

  completed(facts: EngineEvents['completed']): void {
    this.#ended(facts, 'SUCCESS');
    this.#log(['job.succeeded', 'RUNNING', 'SUCCEEDED'], facts);
  }

  failed({ state, failure, delayMs, ...facts }: EngineEvents['failed']): void {
    const isTimeout = failure.category === 'TIMEOUT';
    const durationMs = this.#ended(facts, 'FAILED', { error_code: failure.code });
    const reason = reasonOf(failure);
    const fields = { reason, error_code: failure.code, error_message: failure.message, duration_ms: durationMs };
    this.#log([isTimeout ? 'job.timed_out' : 'job.failed', 'RUNNING', 'FAILED'], facts, fields);
    if (state === 'retrying' && (delayMs ?? 0) <= 0) this.#requeued(facts);
  }

  cancelled(facts: EngineEvents['cancelled']): void {
    this.#ended(facts, 'CANCELED');
    this.#log(['job.canceled', 'RUNNING', 'CANCELED'], facts);
  }

  /** A cancel or a rescue took the job, and reports it. */
  lost(facts: EngineEvents['lost']): void {
    this.#closeRun(facts, { lost: true });
  }

  /** Not a change of state: the job stayed in the queue while it was claimed. */
  unclaimed(facts: EngineEvents['unclaimed']): void {
    this.metrics.unclaimed();
    this.#telemetry.log.warn('job.lease_expired', { ...fieldsOf(facts), current_state: 'QUEUED' });
  }

  staged(job: StagedJob): void {
    if (job.from === 'retrying') this.#requeued(job);
    // A job that was retried by hand is already QUEUED.
    if (job.from !== 'delayed' || job.attempt > 0) return;
    this.metrics.queued();
    this.#log(['job.queued', 'CREATED', 'QUEUED'], job);
  }

  #requeued(facts: Omit<JobFacts, 'createdAtMs'>): void {
    this.metrics.retried(false);
    this.#log(['job.retried', 'FAILED', 'QUEUED'], facts, { reason: 'automatic' });
  }

  #ended(facts: JobFacts, outcome: ExecutionOutcome, attributes: object = {}): number | undefined {
    const { traceparent, durationMs } = this.#closeRun(facts, { outcome, ...attributes });
    const scenario = scenarioOf(facts) ?? 'none';
    this.metrics.finished({ scenario, attempt: facts.attempt }, outcome, durationMs === undefined ? null : durationMs / 1_000);
    if (traceparent !== undefined) {
      this.#telemetry.tracer.start('report', traceparent).end({ ...attributesOf(facts), outcome });
    }
    return durationMs;
  }

  #closeRun(facts: JobFacts, attributes: object): { traceparent?: string; durationMs?: number } {
    const run = this.#runs.get(runOf(facts));
    if (run === undefined) return {};
    this.#runs.delete(runOf(facts));
    this.metrics.running(this.#runs.size);
    run.span?.end({ ...attributesOf(facts), ...attributes });
    return { traceparent: run.traceparent, durationMs: Math.round(nowMs() - run.startedAtMs) };
  }

  #log([event, from, to]: Step, facts: Omit<JobFacts, 'createdAtMs'>, more: LogFields = {}): void {
    const level = to === 'FAILED' ? 'warn' : 'info';
    this.#telemetry.log[level](event, { ...fieldsOf(facts), current_state: from, next_state: to, ...more });
  }
}

type Facts = Pick<JobFacts, 'jobId' | 'orgId' | 'attempt' | 'tags'>;

/** The next attempt of a job may start here before the end of the last one is known. */
const runOf = ({ jobId, attempt }: Facts): string => `${jobId}:${attempt}`;

function scenarioOf({ tags }: Facts): string | undefined {
  return tags?.work_kind;
}

function fieldsOf(facts: Facts): LogFields {
  const scenario = scenarioOf(facts);
  const expected = isWorkKind(scenario) ? KINDS[scenario].expected : undefined;
  const { jobId, orgId, attempt } = facts;
  return { job_id: jobId, client_id: orgId, attempt, scenario, expected_outcome: expected };
}

function attributesOf(facts: Facts): Readonly<Record<string, unknown>> {
  return { job_id: facts.jobId, client_id: facts.orgId, attempt: facts.attempt, scenario: scenarioOf(facts) };
}

function reasonOf({ category, code }: Failure): string {
  if (category === 'TIMEOUT') return 'timeout';
  if (code === 'WORKER_LOST') return 'worker_lost';
  return code === 'WORKER_STOPPED' ? 'worker_stopped' : 'failure';
}

function dueAtMs({ createdAtMs }: JobFacts, { execution_at }: Readonly<Record<string, unknown>>): number {
  return typeof execution_at === 'string' ? Math.max(createdAtMs, Date.parse(execution_at)) : createdAtMs;
}

/** At least zero, because the times come from the clocks of two machines. */
const secondsSince = (fromMs: number, toMs: number): number => Math.max(0, (toMs - fromMs) / 1_000);
