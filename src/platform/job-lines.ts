import { DELIVERY_TYPE } from '../core/delivery-policy.ts';
import { EXECUTION_TYPE } from '../core/execution/kinds.ts';
import type { Failure } from '../core/failure.ts';
import type { JobState } from '../core/states.ts';
import type { EngineEvents, EventHub, EventOfJob, JobFacts, ReportedMove } from '../engine/events.ts';
import type { Log, LogFields } from '../telemetry/log.ts';
import type { Notices } from './notices.ts';

/** Where the events of jobs come from: an engine, or the library. */
export type JobSource = Pick<EventHub, 'on'>;

type Facts = Pick<JobFacts, 'jobId' | 'orgId' | 'attempt' | 'type' | 'correlationId' | 'projectId'>;

/** The fields that every line about a job has. */
export const jobFields = (facts: Facts): LogFields => ({
  job_id: facts.jobId,
  job_type: facts.type,
  org_id: facts.orgId,
  project_id: facts.projectId ?? undefined,
  correlation_id: facts.correlationId ?? undefined,
  attempt: facts.attempt,
});

/** Why a job failed. */
export const failureFields = (failure: Failure | null): LogFields => ({
  error_code: failure?.code,
  error_message: failure?.message,
  error_class: failure?.category.toLowerCase(),
});

/** The lines of jobs that moved and did not fail. The line of a job that its children complete was written when its handler succeeded. */
const MOVES: Partial<Record<JobState, string>> = { scheduled: 'job.scheduled', delayed: 'job.delayed', cancelled: 'job.cancelled' };

/**
 * Writes a line for each attempt that failed and for each job that failed without one. At the level debug it writes a line for the other
 * changes of state. The execution API has lines of its own, and so have calls of webhooks. Where the command shows the ends of attempts
 * itself, the log does not repeat them. Returns a function that stops it.
 */
export function logJobs(jobs: JobSource, log: Log, { showsJobs }: Pick<Notices, 'showsJobs'>): () => void {
  const lines = new JobLines(log);
  const follow = <E extends EventOfJob>(event: E, write: (facts: EngineEvents[E]) => void, except: readonly string[] = OTHERS) =>
    jobs.on(event, (facts) => {
      if (!except.includes(facts.type)) write(facts);
    });
  const stops = [
    follow('cancelled', (facts) => lines.step('job.cancelled', facts, 'running', 'cancelled')),
    follow('postponed', (facts) => lines.postponed(facts)),
    // A call of a webhook has no line of its own if its worker died, or if it never ran.
    follow('rescued', (facts) => lines.rescued(facts), [EXECUTION_TYPE]),
    follow('failedWaiting', (move) => lines.failedWaiting(move), [EXECUTION_TYPE]),
  ];
  if (!showsJobs) {
    const reason = 'another worker owns the job now';
    stops.push(follow('lost', (facts) => log.warn('job.lost', () => ({ ...jobFields(facts), reason }))));
    stops.push(follow('failed', (facts) => lines.failed(facts)));
  }
  // Some of these events come with every job, and the engine builds them only if there is a listener. That takes 2 us for each job.
  if (log.writes('debug')) {
    stops.push(follow('started', (facts) => lines.step('job.started', facts, 'scheduled', 'running')));
    stops.push(follow('completed', (facts) => lines.step('job.completed', facts, 'running', 'completed')));
    stops.push(follow('moved', (move) => lines.moved(move)));
    stops.push(follow('released', (move) => lines.moved(move)));
    stops.push(
      jobs.on('staged', ({ jobs: staged }) => {
        for (const job of staged) if (!OTHERS.includes(job.type)) lines.step('job.scheduled', job, job.from, 'scheduled');
      }),
    );
  }
  return () => {
    for (const stop of stops) stop();
  };
}

/** The types whose attempts have other lines. */
const OTHERS: readonly string[] = [EXECUTION_TYPE, DELIVERY_TYPE];

class JobLines {
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  step(event: string, facts: Facts, from: string, to: string): void {
    this.#log.debug(event, () => ({ ...jobFields(facts), current_state: from, next_state: to }));
  }

  failed({ state, failure, delayMs, ...facts }: EngineEvents['failed']): void {
    const fields = (): LogFields => ({ ...failureFields(failure), retry_in_ms: delayMs ?? undefined });
    this.#failure(facts, { from: 'running', to: state, fields });
    if (state === 'retrying') this.#requeued(facts, delayMs);
  }

  /** A request to cancel the job may have come before the rescue. */
  rescued(facts: EngineEvents['rescued']): void {
    if (facts.state === 'cancelled') this.step('job.cancelled', facts, 'running', 'cancelled');
    else this.failed(facts);
  }

  failedWaiting({ from, to, reason, failure, requestId, ...facts }: ReportedMove): void {
    const fields = (): LogFields => ({ reason, ...failureFields(failure), request_id: requestId ?? undefined });
    this.#failure(facts, { from, to, fields });
  }

  postponed({ delayMs, ...facts }: EngineEvents['postponed']): void {
    this.step('job.postponed', facts, 'running', 'retrying');
    this.#requeued(facts, delayMs);
  }

  moved({ from, to, reason, requestId, ...facts }: ReportedMove): void {
    const event = reason === 'manual_retry' ? 'job.retried' : MOVES[to];
    if (event === undefined) return;
    const states = { current_state: from, next_state: to };
    this.#log.debug(event, () => ({ ...jobFields(facts), ...states, reason, request_id: requestId ?? undefined }));
  }

  #failure(facts: Facts, { from, to, fields }: { from: JobState; to: JobState; fields: () => LogFields }): void {
    const event = to === 'dead_letter' ? 'job.dead_lettered' : 'job.failed';
    const level = to === 'retrying' ? 'warn' : 'error';
    this.#log[level](event, () => ({ ...jobFields(facts), current_state: from, next_state: to, ...fields() }));
  }

  /** A job without a delay is ready at once, and no stager sees it. */
  #requeued(facts: Facts, delayMs: number | null): void {
    if ((delayMs ?? 0) <= 0) this.step('job.scheduled', facts, 'retrying', 'scheduled');
  }
}
