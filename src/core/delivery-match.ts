import { isAppError } from './errors.ts';
import { projectSteps, type StateChange } from './execution/events.ts';
import { EXECUTION_TYPE } from './execution/kinds.ts';
import { failureOf, outcomeOf } from './execution/states.ts';
import type { Failure } from './failure.ts';
import { eventIdOf } from './ids.ts';
import type { StateTransition } from './job.ts';
import { EMITTED_EVENT, type JobEventName, SILENT_PROFILE, subscribes, webhookBody } from './public-events.ts';
import { isTerminal } from './states.ts';
import { formatTimestamp } from './timestamp.ts';

/** A transition of a job, with the facts that its deliveries need. */
export type OutboxTransition = StateTransition & {
  /** Its position in the history of the job. */
  readonly n: number;
  readonly txid: number;
  /** Set for a failed attempt. */
  readonly failure: Pick<Failure, 'category' | 'code'> | null;
};

/** The public facts about a job, and its callback URL. They never include its payload, result or tags. */
export type OutboxJob = {
  readonly orgId: string;
  readonly seq: number;
  readonly jobId: string;
  readonly jobType: string;
  readonly profile: string;
  /** Null for a job that was not submitted through the execution API. */
  readonly scenario: string | null;
  readonly executionType: string | null;
  readonly maxAttempts: number;
  readonly callbackUrl: string | null;
  /** Oldest first. Retention may have removed the first transitions. */
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
  /** The job's callback URL, or null when the callback does not receive this event. */
  readonly callbackUrl: string | null;
};

export type Webhook = {
  readonly id: string;
  readonly orgId: string;
  readonly events: readonly string[];
  readonly sinceTxid: number;
};

/** An event with the webhook or the callback URL that receives it. */
export type Match = { readonly event: PublicEvent } & (
  | { readonly webhookId: string; readonly url?: undefined }
  | { readonly webhookId?: undefined; readonly url: string }
);

const isOfExecutionApi = ({ jobType }: OutboxJob): boolean => jobType === EXECUTION_TYPE;

/** The public events of a job, in order, with the same ids as in its report. */
export function publicEventsOf(job: OutboxJob): PublicEvent[] {
  if (job.profile === SILENT_PROFILE) return [];
  const steps = stepsOf(job);
  return job.history.flatMap((transition, at) => eventsOf(job, transition, steps[at] as StateChange[]));
}

/** The execution API cannot name the states of an incomplete history, so its events fall back to the general names. */
function stepsOf(job: OutboxJob): StateChange[][] {
  try {
    return projectSteps({ ...job, isForeign: !isOfExecutionApi(job) });
  } catch (error) {
    if (!isAppError(error)) throw error;
    return projectSteps({ ...job, isForeign: true });
  }
}

/** The events of one transition. A job of the type EMIT_EVENT adds one when it succeeds. */
function eventsOf(job: OutboxJob, transition: OutboxTransition, changes: readonly StateChange[]): PublicEvent[] {
  const events = changes.map((change): NamedChange => ({ ...change, name: change.eventName }));
  const last = events.at(-1);
  if (last?.name === 'job.succeeded' && job.executionType === 'EMIT_EVENT') events.push(emitted(last));
  return events.map((event, index) => ({
    orgId: job.orgId,
    jobId: job.jobId,
    n: transition.n,
    index,
    txid: transition.txid,
    name: event.name,
    body: bodyOf(job, transition, event),
    callbackUrl: isForCallback(job, transition, index === events.length - 1) ? job.callbackUrl : null,
  }));
}

type NamedChange = StateChange & { readonly name: JobEventName };

function emitted(succeeded: NamedChange): NamedChange {
  const { jobId, timestamp, nextState } = succeeded;
  const eventId = eventIdOf(jobId, `${timestamp}:${EMITTED_EVENT}`);
  return { ...succeeded, name: EMITTED_EVENT, eventId, prevState: nextState };
}

/** Callbacks of the execution API receive every event; other callbacks receive only the end of the job. */
function isForCallback(job: OutboxJob, { to }: OutboxTransition, isLast: boolean): boolean {
  return isOfExecutionApi(job) || (isTerminal(to) && isLast);
}

function bodyOf(job: OutboxJob, { to, failure }: OutboxTransition, event: NamedChange): string {
  const isForeign = !isOfExecutionApi(job);
  const outcome = outcomeOf(event.nextState);
  const timestamp = formatTimestamp(new Date(event.timestamp));
  const data = {
    event_id: event.eventId,
    job_id: job.jobId,
    event_name: event.name,
    prev_state: event.prevState,
    next_state: event.nextState,
    timestamp,
    scenario: job.scenario,
    job_type: job.executionType ?? job.jobType,
    attempt: event.attempt,
    ...(event.reason === undefined ? {} : { reason: event.reason }),
    ...(event.retriesExhausted === undefined ? {} : { retries_exhausted: true }),
    ...(isForeign ? { state: to.toUpperCase() } : {}),
    ...(outcome === null ? {} : { outcome }),
    ...(outcome !== 'FAILED' || failure === null ? {} : { error: errorOf(failure, isForeign) }),
  };
  return webhookBody({ type: event.name, timestamp, data });
}

/** Leaves out the message: the handler wrote it, and it may contain private data. */
function errorOf({ category, code }: Pick<Failure, 'category' | 'code'>, isForeign: boolean) {
  const shown = isForeign ? code : failureOf({ category, code, message: '' })?.code;
  return { category, code: shown };
}

/** Matches each event with the webhooks of its org that are older and subscribe to it, and with the job's callback. */
export function matchDeliveries(events: readonly PublicEvent[], webhooks: readonly Webhook[]): Match[] {
  const byOrg = Map.groupBy(webhooks, ({ orgId }) => orgId);
  return events.flatMap((event): Match[] => {
    const subscribers = (byOrg.get(event.orgId) ?? []).filter(
      ({ events: names, sinceTxid }) => event.txid > sinceTxid && subscribes(names, event.name),
    );
    const matches: Match[] = subscribers.map(({ id }) => ({ event, webhookId: id }));
    return event.callbackUrl === null ? matches : [...matches, { event, url: event.callbackUrl }];
  });
}
