import { EXECUTION_TYPE, isWorkKind, KINDS } from '../core/execution/kinds.ts';
import { type ExecutionOutcome, executionStateOf } from '../core/execution/states.ts';
import type { Failure } from '../core/failure.ts';
import { wholeOrg } from '../core/owner.ts';
import type { JobState } from '../core/states.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineEvents, EventHub, EventOfJob, JobFacts, ReportedMove, StagedJob } from '../engine/events.ts';
import { traceparentOf } from '../services/execution/traced.ts';
import type { LogFields } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { nowMs, type OpenSpan } from '../telemetry/trace.ts';
import { failureFields, type JobSource, jobFields } from './job-lines.ts';

/** Reads the state and the trace of a job that this process did not run, or not to its end. Null if the job is gone. */
export type LookUp = (job: Facts) => Promise<{ readonly state: JobState; readonly traceparent: string | undefined } | null>;

export const lookUpIn =
  ({ reader }: Pick<Engine, 'reader'>): LookUp =>
  async ({ orgId, jobId }) => {
    const job = await reader.get(wholeOrg(orgId), jobId, { payload: true });
    return job === null ? null : { state: job.state, traceparent: traceparentOf(job) };
  };

/** Records log lines and traces of the execution API's jobs in this process. Returns a function that stops it. */
export function observeExecution(events: EventHub, telemetry: Telemetry, lookUp: LookUp): () => void {
  const observer = new ExecutionObserver(telemetry, lookUp);
  const follow = <E extends EventOfJob>(event: E, listener: (facts: EngineEvents[E]) => void): (() => void) =>
    events.onType(event, EXECUTION_TYPE, listener);
  const stops = [
    follow('started', (facts) => observer.started(facts)),
    follow('log', (facts) => observer.logged(facts)),
    follow('completed', (facts) => observer.completed(facts)),
    follow('failed', (facts) => observer.failed(facts)),
    follow('cancelled', (facts) => observer.cancelled(facts)),
    follow('lost', (facts) => observer.lost(facts)),
    observeLoops(follow, events, observer),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/**
 * Records what the loops of an engine decide about the execution API's jobs. A process that runs only the modules of a user has such loops
 * too, and may be the one that moves a job.
 */
export function observeExecutionLoops(jobs: JobSource, telemetry: Telemetry): () => void {
  const follow: Follow = (event, listener) =>
    jobs.on(event, (facts) => {
      if (facts.type === EXECUTION_TYPE) listener(facts);
    });
  return observeLoops(follow, jobs, new ExecutionObserver(telemetry, async () => null));
}

type Follow = <E extends EventOfJob>(event: E, listener: (facts: EngineEvents[E]) => void) => () => void;

function observeLoops(follow: Follow, jobs: JobSource, observer: ExecutionObserver): () => void {
  const stops = [
    follow('rescued', (facts) => (facts.state === 'cancelled' ? observer.cancelled(facts) : observer.failed(facts))),
    follow('unclaimed', (facts) => observer.unclaimed(facts)),
    follow('failedWaiting', (move) => observer.failedWaiting(move)),
    follow('moved', (move) => observer.moved(move)),
    jobs.on('staged', ({ jobs: staged }) => {
      for (const job of staged) if (job.type === EXECUTION_TYPE) observer.staged(job);
    }),
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
  readonly #telemetry: Telemetry;
  readonly #lookUp: LookUp;
  readonly #runs = new Map<string, Run>();

  constructor(telemetry: Telemetry, lookUp: LookUp) {
    this.#telemetry = telemetry;
    this.#lookUp = lookUp;
  }

  /** A job that one statement claimed and started has an assigned time of zero. */
  started({ assignedMs = 0, ...facts }: EngineEvents['started']): void {
    this.#runs.set(runOf(facts), { startedAtMs: nowMs(), assignedMs });
    this.#log(['job.assigned', 'QUEUED', 'ASSIGNED'], facts);
    this.#log(['job.running', 'ASSIGNED', 'RUNNING'], facts);
  }

  /** The first log line of the handler carries the due time and the trace from the job's definition. */
  logged({ level, message, fields, ...facts }: EngineEvents['log']): void {
    const write = level === 'info' || level === 'debug' ? 'info' : level;
    this.#telemetry.log[write](message, { ...fieldsOf(facts), ...fields });
    const run = this.#runs.get(runOf(facts));
    if (message !== 'execution.started' || run === undefined) return;
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
    const fields = { reason, ...failureFields(failure), duration_ms: durationMs };
    this.#log([isTimeout ? 'job.timed_out' : 'job.failed', 'RUNNING', 'FAILED'], facts, fields);
    if (state === 'retrying' && (delayMs ?? 0) <= 0) this.#requeued(facts);
  }

  cancelled(facts: EngineEvents['cancelled']): void {
    this.#ended(facts, 'CANCELED');
    this.#log(['job.canceled', 'RUNNING', 'CANCELED'], facts);
  }

  /** A forced cancel or a rescue took the job. The rescuer reports what it did. A cancel leaves the report to the process that ran the job. */
  lost(facts: EngineEvents['lost']): void {
    const { traceparent } = this.#closeRun(facts, { lost: true });
    if (traceparent === undefined) return;
    this.#afterLookUp(facts, (job) => {
      if (job.state === 'cancelled') this.#report(facts, traceparent, 'CANCELED');
    });
  }

  /** Not a change of state: the job stayed in the queue while it was claimed. */
  unclaimed(facts: EngineEvents['unclaimed']): void {
    this.#telemetry.log.warn('job.lease_expired', { ...fieldsOf(facts), current_state: 'QUEUED' });
  }

  staged(job: StagedJob): void {
    if (job.from === 'retrying') this.#requeued(job);
    // A job that was retried by hand is already QUEUED.
    if (job.from !== 'delayed' || job.attempt > 0) return;
    this.#log(['job.queued', 'CREATED', 'QUEUED'], job);
  }

  /** A job whose next attempt was dropped was FAILED before. */
  failedWaiting({ from, reason, failure, requestId, isLeased = false, ...facts }: ReportedMove): void {
    const before = executionStateOf({ state: from, attemptsStarted: facts.attempt, isLeased });
    if (before === 'FAILED') return;
    const fields = { reason, ...failureFields(failure), request_id: requestId ?? undefined };
    this.#log(['job.failed', before, 'FAILED'], facts, fields);
    this.#ended(facts, 'FAILED', { error_code: failure?.code });
  }

  /** Requests of any API change jobs, and each change has this line only. */
  moved({ from, to, reason, requestId, isLeased = false, ...facts }: ReportedMove): void {
    const request_id = requestId ?? undefined;
    const before = executionStateOf({ state: from, attemptsStarted: facts.attempt, isLeased });
    if (to === 'cancelled') {
      this.#log(['job.canceled', before, 'CANCELED'], facts, { request_id, action: 'cancel' });
      // The process that runs a job reports its end. Nobody runs this one.
      if (from !== 'running') this.#ended(facts, 'CANCELED');
    } else if (reason === 'manual_retry')
      this.#log(['job.retried', 'FAILED', 'QUEUED'], facts, { request_id, action: 'retry', reason: 'manual' });
  }

  #requeued(facts: Omit<JobFacts, 'createdAtMs'>): void {
    this.#log(['job.retried', 'FAILED', 'QUEUED'], facts, { reason: 'automatic' });
  }

  #ended(facts: JobFacts, outcome: ExecutionOutcome, attributes: object = {}): number | undefined {
    const { traceparent, durationMs } = this.#closeRun(facts, { outcome, ...attributes });
    if (traceparent !== undefined) this.#report(facts, traceparent, outcome);
    // Another process ran the job, or it ended before its handler began.
    else this.#afterLookUp(facts, (job) => this.#report(facts, job.traceparent, outcome));
    return durationMs;
  }

  #report(facts: JobFacts, traceparent: string | undefined, outcome: ExecutionOutcome): void {
    if (traceparent !== undefined) this.#telemetry.tracer.start('report', traceparent).end({ ...attributesOf(facts), outcome });
  }

  /** Best effort: without the row there is no report. */
  #afterLookUp(facts: JobFacts, report: (job: NonNullable<Awaited<ReturnType<LookUp>>>) => void): void {
    if (!this.#telemetry.tracer.isOn) return;
    this.#lookUp(facts).then(
      (job) => {
        if (job !== null) report(job);
      },
      () => {},
    );
  }

  #closeRun(facts: JobFacts, attributes: object): { traceparent?: string; durationMs?: number } {
    const run = this.#runs.get(runOf(facts));
    if (run === undefined) return {};
    this.#runs.delete(runOf(facts));
    run.span?.end({ ...attributesOf(facts), ...attributes });
    return { traceparent: run.traceparent, durationMs: Math.round(nowMs() - run.startedAtMs) };
  }

  #log([event, from, to]: Step, facts: Omit<JobFacts, 'createdAtMs'>, more: LogFields = {}): void {
    const level = to === 'FAILED' ? 'warn' : 'info';
    this.#telemetry.log[level](event, { ...fieldsOf(facts), current_state: from, next_state: to, ...more });
  }
}

type Facts = Pick<JobFacts, 'jobId' | 'orgId' | 'attempt' | 'tags' | 'type' | 'correlationId' | 'projectId'>;

/** The next attempt of a job may start here before the end of the last one is known. */
const runOf = ({ jobId, attempt }: Facts): string => `${jobId}:${attempt}`;

function scenarioOf({ tags }: Facts): string | undefined {
  return tags?.work_kind;
}

function fieldsOf(facts: Facts): LogFields {
  const scenario = scenarioOf(facts);
  const expected = isWorkKind(scenario) ? KINDS[scenario].expected : undefined;
  return { ...jobFields(facts), client_id: facts.orgId, scenario, expected_outcome: expected };
}

function attributesOf(facts: Facts): Readonly<Record<string, unknown>> {
  return { job_id: facts.jobId, client_id: facts.orgId, attempt: facts.attempt, scenario: scenarioOf(facts) };
}

function reasonOf({ category, code }: Failure): string {
  if (category === 'TIMEOUT') return 'timeout';
  if (code === 'WORKER_LOST') return 'worker_lost';
  return code === 'WORKER_STOPPED' ? 'worker_stopped' : 'failure';
}
