import { isAppError } from './errors.ts';
import { projectSteps, type StateChange } from './execution/events.ts';
import { EXECUTION_TYPE } from './execution/kinds.ts';
import { failureOf } from './execution/report.ts';
import { outcomeOf } from './execution/states.ts';
import type { Failure } from './failure.ts';
import { eventIdOf } from './ids.ts';
import type { StateTransition } from './job.ts';
import { EMITTED_EVENT, type JobEventName, SILENT_PROFILE, subscribes, webhookBody } from './public-events.ts';
import { isTerminal } from './states.ts';
import { formatTimestamp } from './timestamp.ts';

/** A transition of a job with what the outbox must know of it. */
export type OutboxTransition = StateTransition & {
  /** Its number within the job. */
  readonly n: number;
  readonly txid: number;
  /** Of a failed attempt. */
  readonly failure: Pick<Failure, 'category' | 'code'> | null;
};

/** What is told of a job, and where its own callback goes. Never its payload, result or tags. */
export type OutboxJob = {
  readonly orgId: string;
  readonly seq: number;
  readonly jobId: string;
  readonly jobType: string;
  readonly profile: string;
  /** Of a job of the execution API; null elsewhere. */
  readonly scenario: string | null;
  readonly executionType: string | null;
  readonly maxAttempts: number;
  readonly callbackUrl: string | null;
  /** Oldest first; the beginning may be gone. */
  readonly history: readonly OutboxTransition[];
};

export type PublicEvent = {
  readonly orgId: string;
  readonly jobId: string;
  readonly n: number;
  readonly index: number;
  readonly txid: number;
  readonly name: JobEventName;
  readonly body: string;
  /** Where the job's own callback is to be told of this event; null: nowhere. */
  readonly callbackUrl: string | null;
};

export type Webhook = {
  readonly id: string;
  readonly orgId: string;
  readonly events: readonly string[];
  readonly sinceTxid: number;
};

/** Events with their webhook, or with the URL of a callback. */
export type Match = { readonly event: PublicEvent } & (
  | { readonly webhookId: string; readonly url?: undefined }
  | { readonly webhookId?: undefined; readonly url: string }
);

const isOfExecutionApi = ({ jobType }: OutboxJob): boolean => jobType === EXECUTION_TYPE;

/** Everything a job's history tells, in order: the same events and ids that its report shows, and its times to the millisecond. */
export function publicEventsOf(job: OutboxJob): PublicEvent[] {
  if (job.profile === SILENT_PROFILE) return [];
  const steps = stepsOf(job);
  return job.history.flatMap((transition, at) => tell(job, transition, steps[at] as StateChange[]));
}

/** A history with a part missing makes no sense to the execution API; what is left of it is told all the same. */
function stepsOf(job: OutboxJob): StateChange[][] {
  try {
    return projectSteps({ ...job, isForeign: !isOfExecutionApi(job) });
  } catch (error) {
    if (!isAppError(error)) throw error;
    return projectSteps({ ...job, isForeign: true });
  }
}

/** What one transition tells. A job of the type EMIT_EVENT tells one thing more when it succeeds. */
function tell(job: OutboxJob, transition: OutboxTransition, changes: readonly StateChange[]): PublicEvent[] {
  const told = changes.map((change): Told => ({ ...change, name: change.eventName }));
  const last = told.at(-1);
  if (last?.name === 'job.succeeded' && job.executionType === 'EMIT_EVENT') told.push(emitted(last));
  return told.map((event, index) => ({
    ...{ orgId: job.orgId, jobId: job.jobId, n: transition.n, index, txid: transition.txid, name: event.name },
    body: bodyOf(job, transition, event),
    callbackUrl: hearsCallback(job, transition, index === told.length - 1) ? job.callbackUrl : null,
  }));
}

type Told = StateChange & { readonly name: JobEventName };

function emitted(succeeded: Told): Told {
  const { jobId, timestamp, nextState } = succeeded;
  const eventId = eventIdOf(jobId, `${timestamp}:${EMITTED_EVENT}`);
  return { ...succeeded, name: EMITTED_EVENT, eventId, prevState: nextState };
}

/** The execution API's callbacks hear of every event, those of other doors of each end. */
function hearsCallback(job: OutboxJob, { to }: OutboxTransition, isLast: boolean): boolean {
  return isOfExecutionApi(job) || (isTerminal(to) && isLast);
}

function bodyOf(job: OutboxJob, { to, failure }: OutboxTransition, event: Told): string {
  const isForeign = !isOfExecutionApi(job);
  const outcome = outcomeOf(event.nextState);
  const timestamp = formatTimestamp(new Date(event.timestamp));
  const data = {
    ...{ event_id: event.eventId, job_id: job.jobId, event_name: event.name },
    ...{ prev_state: event.prevState, next_state: event.nextState, timestamp },
    ...{ scenario: job.scenario, job_type: job.executionType ?? job.jobType, attempt: event.attempt },
    ...(event.reason === undefined ? {} : { reason: event.reason }),
    ...(event.retriesExhausted === undefined ? {} : { retries_exhausted: true }),
    ...(isForeign ? { state: to.toUpperCase() } : {}),
    ...(outcome === null ? {} : { outcome }),
    ...(outcome !== 'FAILED' || failure === null ? {} : { error: errorOf(failure, isForeign) }),
  };
  return webhookBody({ type: event.name, timestamp, data });
}

/** The message of a failure is the handler's own and may say anything; it stays where the job is read. */
function errorOf({ category, code }: Pick<Failure, 'category' | 'code'>, isForeign: boolean) {
  const shown = isForeign ? code : failureOf({ category, code, message: '' })?.code;
  return { category, code: shown };
}

/** Whom an event is for: every webhook of its org that was there before it and asked for it, and its job's callback. */
export function matchDeliveries(events: readonly PublicEvent[], webhooks: readonly Webhook[]): Match[] {
  const byOrg = Map.groupBy(webhooks, ({ orgId }) => orgId);
  return events.flatMap((event): Match[] => {
    const asking = (byOrg.get(event.orgId) ?? []).filter(
      ({ events: names, sinceTxid }) => event.txid > sinceTxid && subscribes(names, event.name),
    );
    const matches: Match[] = asking.map(({ id }) => ({ event, webhookId: id }));
    return event.callbackUrl === null ? matches : [...matches, { event, url: event.callbackUrl }];
  });
}
