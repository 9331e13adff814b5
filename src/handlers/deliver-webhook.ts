import type { AttemptOutcome, LoadedDelivery } from '../core/delivery-policy.ts';
import { DELIVERY_TYPE, type DeliverySettings, deliveryPolicy } from '../core/delivery-policy.ts';
import { PermanentError, TemporaryError } from '../core/handler-errors.ts';
import { isUuid } from '../core/ids.ts';
import { testBody, testMessageIdOf } from '../core/public-events.ts';
import { formatTimestamp } from '../core/timestamp.ts';
import { signatureHeader } from '../core/webhook-signature.ts';
import { type DeliveryAnswer, judgeAnswer } from './delivery-verdict.ts';

/** The part of the handler context that a delivery needs. */
type DeliveryWork = { readonly signal: AbortSignal };

/** Reads and writes deliveries. Both methods throw when the lease is lost, and then nothing was written. */
type DeliveryDesk<Context> = {
  load(context: Context, task: DeliveryTask): Promise<LoadedDelivery>;
  /** Returns whether another job will retry the delivery. */
  finish(context: Context, deliveryId: string, outcome: AttemptOutcome): Promise<{ isTriedAgain: boolean }>;
  /** The endpoint accepted a message, so others may follow. */
  noteVerified(endpoint: { webhookId: string; url: string }): Promise<void>;
};

/** `canWait`: the last request to the target failed, so others go first. */
type DeliveryTask = { readonly deliveryId: string; readonly canWait: boolean };

export type DeliveryRequest = ReturnType<typeof requestFor>;

export type DeliverOptions<Context> = DeliverySettings & {
  readonly desk: DeliveryDesk<Context>;
  readonly fetch: (request: DeliveryRequest) => Promise<DeliveryAnswer>;
};

/** The rest of a longer response is not read. */
const MAX_ANSWER_BYTES = 65_536;
/** The status decides about the delivery, so a slow body is cut off. */
const ANSWER_WAIT_MS = 1_000;

/** The registration of deliveries. */
export function deliverRegistration<Context extends DeliveryWork>(options: DeliverOptions<Context>) {
  const { timeoutMs, leaseMs, maxAttempts } = deliveryPolicy(options);
  return {
    type: DELIVERY_TYPE,
    timeout: `${timeoutMs}ms`,
    lease: `${leaseMs}ms`,
    maxAttempts,
    handler: (context: Context, payload: unknown) => deliver(options, context, taskOf(payload)),
  };
}

function taskOf(payload: unknown): DeliveryTask {
  const given = payload as { delivery_id?: unknown; can_wait?: unknown } | null;
  const deliveryId = given?.delivery_id;
  if (isUuid(deliveryId)) return { deliveryId, canWait: given?.can_wait === true };
  throw new PermanentError('the payload has no valid delivery_id', { code: 'DELIVERY_MISSING' });
}

async function deliver<Context extends DeliveryWork>(
  options: DeliverOptions<Context>,
  context: Context,
  task: DeliveryTask,
): Promise<void> {
  const { desk } = options;
  const delivery = await desk.load(context, task);
  if (delivery.kind === 'gone') return;
  const isUnproven = options.verifies && !delivery.isVerified;
  // The URL of a callback expects the messages of one job and nothing else. Its origin gets one call at a time until it accepts one.
  const needsTest = isUnproven && !delivery.isCallback;
  const first = await send(options, context, needsTest ? testOf(delivery) : delivery);
  const isAccepted = first.verdict === 'delivered';
  if (isUnproven && isAccepted) await desk.noteVerified(delivery);
  // A webhook that does not accept the test gets no event. This was an attempt of the delivery, with the usual retries.
  const judgement = needsTest && isAccepted ? await send(options, context, delivery) : first;
  const { isTriedAgain } = await desk.finish(context, task.deliveryId, judgement);
  if (!isTriedAgain) conclude(judgement);
}

type Message = Pick<Extract<LoadedDelivery, { kind: 'ready' }>, 'url' | 'body' | 'secrets' | 'messageId' | 'nowMs' | 'traceparent'>;

async function send<Context extends DeliveryWork>(
  { fetch, timeoutMs }: DeliverOptions<Context>,
  { signal }: Context,
  message: Message,
): Promise<AttemptOutcome> {
  const answer = await fetch(requestFor(message, { timeoutMs, signal }));
  // An aborted request says nothing about the endpoint.
  signal.throwIfAborted();
  return judgeAnswer(answer, message.nowMs);
}

function testOf({ url, secrets, nowMs, messageId, webhookId }: Extract<LoadedDelivery, { kind: 'ready' }>): Message {
  const body = Buffer.from(testBody({ webhookId, timestamp: formatTimestamp(new Date(nowMs)) }));
  return { url, secrets, nowMs, body, messageId: testMessageIdOf(messageId), traceparent: null };
}

function requestFor(
  { url, body, secrets, messageId, nowMs, traceparent }: Message,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
) {
  const timestampSeconds = Math.floor(nowMs / 1_000);
  return {
    url,
    method: 'POST' as const,
    body,
    timeoutMs,
    signal,
    redirects: 0,
    bodyWaitMs: ANSWER_WAIT_MS,
    maxBodyBytes: MAX_ANSWER_BYTES,
    overflow: 'truncate' as const,
    headers: {
      'content-type': 'application/json',
      'webhook-id': messageId,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signatureHeader({ id: messageId, timestampSeconds, body, secrets }),
      ...(traceparent === null ? {} : { traceparent }),
    },
  };
}

/** Fails the job when its delivery failed and no other job retries it. */
function conclude({ verdict, errorCode }: AttemptOutcome): void {
  if (verdict === 'delivered') return;
  const code = errorCode ?? 'FAILED';
  if (verdict !== 'retry') throw new PermanentError(`the delivery failed permanently: ${code}`, { code });
  throw new TemporaryError(`the delivery failed: ${code}`, { code });
}
