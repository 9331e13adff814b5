import { type Drive, type ExpectedOutcome, KINDS, type WorkKind } from '../core/execution/kinds.ts';
import { isAllowed, outcomeOf } from '../core/execution/states.ts';
import type { Away } from './host.ts';
import type { PlannedJob } from './plan.ts';
import type { Received } from './webhook-receiver.ts';
import type { DeliveryView, EventView, JobView, ReportRow, ReportView } from './wire.ts';
import type { Observed, ObservedJob } from './world.ts';

/** A job must enter the queue within this time after it is due. */
const LATEST_MS = 1_000;
/** The rounding error of the difference of two times in milliseconds. */
const ROUNDED_MS = 2;
const BYTES_IN_KB = 1_024;
/** The delay of the slow webhook receiver. */
export const SLOW_MS = 300;

export type Case = {
  readonly observed: Observed;
  readonly job: ObservedJob;
  readonly row: ReportRow;
  readonly expected: ExpectedOutcome;
  readonly timeScale: number;
  /** When the server was down, if it was restarted. */
  readonly away?: Away;
};

/** All differences between a job and the entry of its work kind. */
export function judge(subject: Case): string[] {
  return [
    ...checkState(subject),
    ...checkEvents(subject.row),
    ...checkRuns(subject),
    ...checkTimes(subject),
    ...checkDuration(subject),
    ...checkFailure(subject),
  ];
}

/** Checks a finished job as `GET /v1/jobs` shows it; null: the job did not end. */
export function judgeView(plan: PlannedJob, view: JobView | null): string[] {
  if (view === null) return ['did not end'];
  const { definition, type } = view;
  if (definition === null) return ['has no definition'];
  const { durationMs, shouldFail, payloadKb } = KINDS[plan.kind];
  // The runtime limit, and so this duration, depends on a setting of the server.
  const wantedMs = durationMs === 'over_max_runtime' ? definition.duration_ms : durationMs;
  const wanted = [plan.type, plan.kind, wantedMs, shouldFail, payloadKb * BYTES_IN_KB].join(' ');
  const { work_kind, duration_ms, should_fail, payload_size } = definition;
  const found = [type, work_kind, duration_ms, should_fail, payload_size].join(' ');
  return [...(wanted === found ? [] : [`is defined as ${found}, expected ${wanted}`]), ...checkProgress(plan, view)];
}

/** Work in several steps must report progress before its last step, whether that step succeeds or fails. */
function checkProgress({ kind }: PlannedJob, { state, progress }: JobView): string[] {
  const { steps, expected } = KINDS[kind];
  const least = Math.round((100 * (steps - 1)) / steps);
  if (state !== expected || steps === 1 || (progress ?? 0) >= least) return [];
  return [`ended with a progress of ${progress}, expected ${least} at least`];
}

/** Compares `GET /v1/jobs/{job_id}/report` with the report over all jobs. */
export function judgeReport(row: ReportRow, { status, body }: { status: number; body: ReportView }): string[] {
  if (status !== 200) return [`its report returns ${status}`];
  const facts = ({ outcome, started_at, finished_at, duration_ms, events }: ReportRow | ReportView) =>
    [outcome, started_at, finished_at, duration_ms, ...events.map(({ event_id }) => event_id)].join();
  const [own, among] = [facts(body), facts(row)];
  return own === among ? [] : [`its report (${own}) differs from the report over all jobs (${among})`];
}

/** Checks whether the server refused the job exactly when its kind requires it. */
export function judgeRefusal({ refusal, jobs }: Observed, expected: ExpectedOutcome): string[] {
  if (expected !== 'REJECTED') return refusal === null ? [] : [`was refused: ${refusalText(refusal)}, expected ${expected}`];
  if (refusal === null) return [`was accepted as ${jobs.map(({ jobId }) => jobId).join(', ')}, expected REJECTED`];
  const isRight = refusal.status === 400 && refusal.code === 'RFA_JOB_VALIDATION_FAILED';
  return isRight ? [] : [`was refused with ${refusalText(refusal)}, expected 400 RFA_JOB_VALIDATION_FAILED`];
}

const refusalText = ({ status, code }: { status: number; code: string | null }): string => `${status}${code === null ? '' : ` ${code}`}`;

function checkState({ observed: { plan }, job, row, expected }: Case): string[] {
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

/** The events must form one unbroken chain of allowed transitions that ends in the state of the job. */
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
  const problems = from === previous.next_state ? [] : [`an event leaves ${from} although it was ${previous.next_state}`];
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
  if (lateMs > LATEST_MS) problems.push(`was queued ${lateMs} ms after ${isMissed ? 'the server was up again' : 'its time'}`);
  return problems;
}

/** Successful work takes at least its duration. */
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
  if (failure === 'timeout' && row.failure?.code !== 'RFA_EXEC_TIMEOUT') problems.push('did not fail with a timeout');
  const last = row.events.at(-1)?.event_name;
  if (drive === 'retry_to_limit' && last !== 'job.failed_final') problems.push(`its last event is ${last}`);
  return problems;
}

export type DeliveryCase = {
  readonly row: ReportRow;
  readonly deliveries: readonly DeliveryView[];
  /** The messages that arrived at the callback of the job, in order. */
  readonly received: readonly Pick<Received, 'body' | 'messageId'>[];
};

/** All differences between the notifications of a job and the entry of its work kind. */
export function judgeDeliveries({ row, deliveries, received }: DeliveryCase): string[] {
  const expected = eventNames(row);
  const named = deliveries.map(({ event }) => event);
  const problems =
    [...named].sort().join() === [...expected].sort().join()
      ? []
      : [`should send ${expected.join(', ')} and sent ${named.join(', ') || 'nothing'}`];
  return [
    ...problems,
    ...deliveries.flatMap((delivery) => {
      const arrivals = received.filter(({ messageId }) => messageId === delivery.message_id).length;
      return checkDelivery(row.work_kind, delivery, arrivals);
    }),
    ...checkArrivals({ row, deliveries, received }),
  ];
}

/** A job of the type EMIT_EVENT sends one event more than its report shows. */
export function eventNames({ events, type, state }: ReportRow): string[] {
  const names = events.map(({ event_name }) => event_name);
  return type === 'EMIT_EVENT' && state === 'SUCCEEDED' ? [...names, 'job.event_emitted'] : names;
}

/** Each event must arrive, the first arrivals in the order of the events, and always under the same id. */
function checkArrivals({ row, deliveries, received }: DeliveryCase): string[] {
  const events = received.map(({ body }) => JSON.parse(body).data as { event_id: string; event_name: string });
  const problems: string[] = [];
  const order = [...new Set(events.map(({ event_name }) => event_name))].join();
  const wanted = [...new Set(eventNames(row))].join();
  if (order !== wanted) problems.push(`its notifications arrived as ${order || 'nothing'}, expected ${wanted}`);
  const ids = new Set(events.map(({ event_id }) => event_id));
  if (row.events.some(({ event_id }) => !ids.has(event_id))) problems.push('an event of its report did not arrive');
  const messages = new Set(received.map(({ messageId }) => messageId));
  if (messages.size !== deliveries.length || deliveries.some(({ message_id }) => !messages.has(message_id)))
    problems.push(`${messages.size} messages arrived for ${deliveries.length} deliveries`);
  return problems;
}

type Attempts = DeliveryView['attempts'];
type Ending = { readonly state: DeliveryView['state']; isAsExpected(attempts: Attempts): boolean };

/** How the deliveries of each kind end. An interrupted attempt may already have received the first response. */
const ENDINGS: Partial<Record<WorkKind, Ending>> = {
  WEBHOOK_SUCCESS: { state: 'delivered', isAsExpected: (attempts) => attempts.at(-1)?.status === 200 },
  WEBHOOK_TIMEOUT: {
    state: 'delivered',
    isAsExpected: ([first, ...others]) => others.length > 0 && (first?.error_code === 'TIMEOUT' || first?.verdict === 'interrupted'),
  },
  WEBHOOK_5XX: {
    state: 'delivered',
    isAsExpected: (attempts) => attempts.length > 1 && attempts.slice(0, -1).every(({ status }) => status !== 200),
  },
  WEBHOOK_RETRIES_EXHAUSTED: {
    state: 'failed',
    isAsExpected: (attempts) => attempts.length > 1 && attempts.every(({ status }) => status !== 200),
  },
  WEBHOOK_SLOW_RECEIVER: {
    state: 'delivered',
    isAsExpected: (attempts) => (attempts.at(-1)?.duration_ms ?? 0) >= SLOW_MS,
  },
};

function checkDelivery(kind: WorkKind | null, delivery: DeliveryView, arrivals: number): string[] {
  const { event, state, attempts } = delivery;
  const ending = kind === null ? undefined : ENDINGS[kind];
  if (ending === undefined) return [];
  const results = attempts.map(({ status, error_code, duration_ms }) => `${status ?? error_code} in ${duration_ms} ms`);
  const after = `after ${results.join(', ') || 'no attempt'}`;
  if (state !== ending.state) return [`its ${event} is ${state} ${after}, expected ${ending.state}`];
  if (arrivals > attempts.length) return [`its ${event} arrived ${arrivals} times, is ${state} ${after}`];
  return ending.isAsExpected(attempts) ? [] : [`its ${event} is ${state} ${after}, which does not match ${kind}`];
}
