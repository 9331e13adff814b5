import { EXECUTION_TYPE, isWorkKind, KINDS } from '../core/execution/kinds.ts';
import type { ExecutionOutcome } from '../core/execution/states.ts';
import type { Failure } from '../core/failure.ts';
import type { EngineEvents, EventHub, JobFacts, StagedJob } from '../engine/events.ts';
import { observeStatements } from '../ledger/driver/statement.ts';
import { ExecutionMetrics } from '../telemetry/execution-metrics.ts';
import type { LogFields } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { nowMs, type OpenSpan } from '../telemetry/trace.ts';

/** Lets metrics, log and traces follow the jobs of the execution API in this process. Answers how to stop it. */
export function observeExecution(events: EventHub, telemetry: Telemetry): () => void {
  const observer = new ExecutionObserver(telemetry);
  const own =
    <F extends { type: string }>(listener: (facts: F) => void) =>
    (facts: F): void => {
      if (facts.type === EXECUTION_TYPE) listener(facts);
    };
  observeStatements(({ failed, sqlState }) => {
    if (failed) observer.metrics.databaseFailed(sqlState);
  });
  const stops = [
    events.on(
      'started',
      own((facts) => observer.started(facts)),
    ),
    events.on(
      'log',
      own((facts) => observer.logged(facts)),
    ),
    events.on(
      'completed',
      own((facts) => observer.completed(facts)),
    ),
    events.on(
      'failed',
      own((facts) => observer.failed(facts)),
    ),
    events.on(
      'rescued',
      own((facts) => observer.failed(facts)),
    ),
    events.on(
      'cancelled',
      own((facts) => observer.cancelled(facts)),
    ),
    events.on(
      'lost',
      own((facts) => observer.lost(facts)),
    ),
    events.on(
      'unclaimed',
      own((facts) => observer.unclaimed(facts)),
    ),
    events.on('staged', ({ jobs }) => jobs.forEach(own((job: StagedJob) => observer.staged(job)))),
    () => observeStatements(null),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** An attempt under way in this process. */
type Run = { readonly startedAtMs: number; readonly assignedMs: number; traceparent?: string; span?: OpenSpan };

/** A name in the words of the execution API, and the states before and after. */
type Step = readonly [event: string, from: string, to: string];

class ExecutionObserver {
  readonly metrics: ExecutionMetrics;
  readonly #telemetry: Telemetry;
  readonly #runs = new Map<string, Run>();

  constructor(telemetry: Telemetry) {
    this.#telemetry = telemetry;
    this.metrics = new ExecutionMetrics(telemetry);
  }

  /** Where one statement claimed the job and started it, it was assigned for no time at all. */
  started({ assignedMs = 0, ...facts }: EngineEvents['started']): void {
    this.#runs.set(runOf(facts), { startedAtMs: nowMs(), assignedMs });
    this.metrics.running(this.#runs.size);
    this.metrics.started(assignedMs / 1_000);
    this.#log(['job.assigned', 'QUEUED', 'ASSIGNED'], facts);
    this.#log(['job.running', 'ASSIGNED', 'RUNNING'], facts);
  }

  /** What the handler says first: only the job's definition knows when it was due and to which trace it belongs. */
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

  /** Another decided about the job, and tells of it: a cancel, or a rescue. */
  lost(facts: EngineEvents['lost']): void {
    this.#closeRun(facts, { lost: true });
  }

  /** No change of state: a claim is none, and the job was in the queue all the time. */
  unclaimed(facts: EngineEvents['unclaimed']): void {
    this.metrics.unclaimed();
    this.#telemetry.log.warn('job.lease_expired', { ...fieldsOf(facts), current_state: 'QUEUED' });
  }

  staged(job: StagedJob): void {
    if (job.from === 'retrying') this.#requeued(job);
    // What was retried by hand was in the queue from then on.
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
    this.metrics.finished(
      { scenario, attempt: facts.attempt },
      outcome,
      durationMs === undefined ? null : durationMs / 1_000,
    );
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

/** A job may begin its next attempt here before the last one is known to be over. */
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

/** Not below zero: two machines' clocks are compared. */
const secondsSince = (fromMs: number, toMs: number): number => Math.max(0, (toMs - fromMs) / 1_000);
