import { type Drive, type ExpectedOutcome, KINDS } from '../core/execution/kinds.ts';
import { isAllowed, outcomeOf } from '../core/execution/states.ts';
import type { Away } from './host.ts';
import type { PlannedJob } from './plan.ts';
import type { EventView, JobView, ReportRow, ReportView } from './wire.ts';
import type { Observed, ObservedJob } from './world.ts';

/** A job enters the queue at most so long after its time. */
const LATEST_MS = 1_000;
/** What is lost where two times are given in milliseconds. */
const ROUNDED_MS = 2;
const BYTES_IN_KB = 1_024;

export type Case = {
  readonly observed: Observed;
  readonly job: ObservedJob;
  readonly row: ReportRow;
  /** The state in which the kind must end. */
  readonly expected: ExpectedOutcome;
  /** What the server multiplies durations by. */
  readonly timeScale: number;
  /** When the server was away, if it was. */
  readonly away?: Away;
};

/** Everything in which a job differs from what its kind promises; nothing when it is as it should be. */
export function judge(subject: Case): string[] {
  return [
    ...checkEnding(subject),
    ...checkEvents(subject.row),
    ...checkRuns(subject),
    ...checkTimes(subject),
    ...checkDuration(subject),
    ...checkFailure(subject),
  ];
}

/** The job as `GET /v1/jobs` shows it once it has ended; null: it did not. */
export function judgeView(plan: PlannedJob, view: JobView | null): string[] {
  if (view === null) return ['did not end'];
  const { definition, type } = view;
  if (definition === null) return ['has no definition'];
  const { durationMs, shouldFail, payloadKb } = KINDS[plan.kind];
  // How long too long is depends on a setting of the server.
  const wantedMs = durationMs === 'over_max_runtime' ? definition.duration_ms : durationMs;
  const wanted = [plan.type, plan.kind, wantedMs, shouldFail, payloadKb * BYTES_IN_KB].join(' ');
  const { work_kind, duration_ms, should_fail, payload_size } = definition;
  const found = [type, work_kind, duration_ms, should_fail, payload_size].join(' ');
  return [...(wanted === found ? [] : [`is defined as ${found}, expected ${wanted}`]), ...checkProgress(plan, view)];
}

/** Work in parts tells how far it came before the last of them, whether that one succeeds or fails. */
function checkProgress({ kind }: PlannedJob, { state, progress }: JobView): string[] {
  const { steps, expected } = KINDS[kind];
  const least = Math.round((100 * (steps - 1)) / steps);
  if (state !== expected || steps === 1 || (progress ?? 0) >= least) return [];
  return [`ended with a progress of ${progress}, expected ${least} at least`];
}

/** Whether `GET /v1/jobs/{job_id}/report` says the same as the report over all jobs. */
export function judgeReport(row: ReportRow, { status, body }: { status: number; body: ReportView }): string[] {
  if (status !== 200) return [`its report answers ${status}`];
  const facts = ({ outcome, started_at, finished_at, duration_ms, events }: ReportRow | ReportView) =>
    [outcome, started_at, finished_at, duration_ms, ...events.map(({ event_id }) => event_id)].join();
  return facts(row) === facts(body) ? [] : ['its report differs from the report over all jobs'];
}

/** Of a planned job that the server did not accept, or accepted when it should not. */
export function judgeRefusal({ refusal, jobs }: Observed, expected: ExpectedOutcome): string[] {
  if (expected !== 'REJECTED') return refusal === null ? [] : [`was refused: ${told(refusal)}, expected ${expected}`];
  if (refusal === null) return [`was accepted as ${jobs.map(({ jobId }) => jobId).join(', ')}, expected REJECTED`];
  const isRight = refusal.status === 400 && refusal.code === 'RFA_JOB_VALIDATION_FAILED';
  return isRight ? [] : [`was refused with ${told(refusal)}, expected 400 RFA_JOB_VALIDATION_FAILED`];
}

const told = ({ status, code }: { status: number; code: string | null }): string =>
  `${status}${code === null ? '' : ` ${code}`}`;

function checkEnding({ observed: { plan }, job, row, expected }: Case): string[] {
  const wanted = job.expected ?? expected;
  const problems = row.state === wanted ? [] : [`ended ${row.state}, expected ${wanted}`];
  if (row.state === 'CANCELED' && job.expected === null) problems.push(...checkCancel(KINDS[plan.kind].drive, row));
  if (row.outcome !== outcomeOf(row.state)) problems.push(`is ${row.state} with the outcome ${row.outcome}`);
  if (row.outcome === null) problems.push('has no outcome');
  return problems;
}

function checkCancel(drive: Drive, { events }: ReportRow): string[] {
  const from = events.at(-1)?.prev_state;
  if (drive === 'cancel_running' && from !== 'RUNNING') return [`was canceled from ${from}, expected RUNNING`];
  const hasRun = events.some(({ event_name }) => event_name === 'job.running');
  return drive === 'cancel_queued' && hasRun ? [`was canceled from ${from}, expected before its start`] : [];
}

/** One unbroken chain of allowed steps from the beginning to the state the job is in. */
function checkEvents({ job_id, state, events, work_kind }: ReportRow): string[] {
  if (events.length === 0) return ['has no events'];
  const problems = events.flatMap((event, index) => checkEvent(event, events[index - 1]));
  if (events.at(-1)?.next_state !== state) problems.push(`its last event leads to ${events.at(-1)?.next_state}`);
  if (new Set(events.map(({ event_id }) => event_id)).size < events.length) problems.push('an event id occurs twice');
  if (events.some((event) => event.job_id !== job_id)) problems.push('has an event of another job');
  if (events.some(({ scenario }) => scenario !== work_kind)) problems.push('has an event of another kind');
  return problems;
}

function checkEvent(event: EventView, previous: EventView | undefined): string[] {
  const { prev_state: from, next_state: to } = event;
  if (previous === undefined) {
    return from === null && to === 'CREATED' ? [] : [`its first event is ${from} -> ${to}`];
  }
  const problems =
    from === previous.next_state ? [] : [`an event leaves ${from} although it was ${previous.next_state}`];
  if (from !== null && !isAllowed(from, to)) problems.push(`it went ${from} -> ${to}, which is forbidden`);
  if (event.timestamp <= previous.timestamp) problems.push(`two events at ${event.timestamp}`);
  return problems;
}

function checkRuns({ job, row }: Case): string[] {
  if (job.runs === null) return [];
  const runs = row.events.filter(({ event_name }) => event_name === 'job.running').length;
  return [
    ...(runs === job.runs ? [] : [`ran ${runs} times, expected ${job.runs}`]),
    ...(row.attempt === job.runs ? [] : [`shows attempt ${row.attempt}, expected ${job.runs}`]),
  ];
}

function checkTimes({ away, row }: Case): string[] {
  const { execution_at, started_at, finished_at, duration_ms } = row;
  const problems: string[] = [];
  if (started_at !== null && finished_at !== null) {
    const spentMs = Date.parse(finished_at) - Date.parse(started_at);
    if (spentMs !== duration_ms) problems.push(`says it took ${duration_ms} ms, not ${spentMs}`);
  }
  const queued = row.events.find(({ event_name }) => event_name === 'job.queued');
  if (execution_at === null || queued === undefined) return problems;
  const dueMs = Date.parse(execution_at);
  const queuedMs = Date.parse(queued.timestamp);
  const isMissed = away !== undefined && away.fromMs <= dueMs && dueMs <= away.toMs;
  if (started_at !== null && Date.parse(started_at) < dueMs) problems.push('was started before its time');
  if (queuedMs < dueMs) problems.push(`was queued ${dueMs - queuedMs} ms before its time`);
  const lateMs = queuedMs - (isMissed ? away.toMs : dueMs);
  if (lateMs > LATEST_MS)
    problems.push(`was queued ${lateMs} ms after ${isMissed ? 'the server was back' : 'its time'}`);
  return problems;
}

/** Work that succeeds takes its time: a server that is done sooner has not done it. */
function checkDuration({ observed: { plan }, row, timeScale }: Case): string[] {
  const { durationMs } = KINDS[plan.kind];
  if (row.state !== 'SUCCEEDED' || durationMs === 'over_max_runtime') return [];
  const leastMs = durationMs * timeScale;
  const tookMs = row.duration_ms ?? 0;
  return tookMs < leastMs - ROUNDED_MS ? [`took ${tookMs} ms, expected ${leastMs} at least`] : [];
}

function checkFailure({ observed: { plan }, row }: Case): string[] {
  if (row.state !== 'FAILED') return [];
  const { failure, drive } = KINDS[plan.kind];
  const isRetryable = row.failure?.retryable;
  const problems: string[] = [];
  if (row.failure == null) problems.push('failed without a failure');
  if (failure === 'temporary' && isRetryable === false) problems.push('its failure is not marked retryable');
  if (failure === 'permanent' && isRetryable === true) problems.push('its failure is marked retryable');
  if (failure === 'timeout' && row.failure?.code !== 'RFA_EXEC_TIMEOUT') problems.push('did not fail by its timeout');
  const last = row.events.at(-1)?.event_name;
  if (drive === 'retry_to_limit' && last !== 'job.failed_final') problems.push(`its last event is ${last}`);
  return problems;
}
