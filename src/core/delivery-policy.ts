import { type Policy, PROFILES } from './policy.ts';

/** Webhook deliveries run as jobs of this type, in this queue and org. */
export const DELIVERY_TYPE = 'webhook.deliver';
export const DELIVERY_QUEUE = 'q:notifications';
export const DELIVERY_PROFILE = 'webhooks';
export const SYSTEM_ORG_ID = '00000000-0000-4000-8000-000000000001';

/** A delivery that is ready to be sent. */
export type LoadedDelivery =
  | {
      readonly kind: 'ready';
      readonly deliveryId: string;
      readonly webhookId: string;
      readonly isCallback: boolean;
      readonly messageId: string;
      /** Its endpoint accepted a message of the org before. */
      readonly isVerified: boolean;
      readonly url: string;
      readonly body: Uint8Array;
      readonly secrets: readonly Uint8Array[];
      readonly createdAtMs: number;
      /** The trace of the job that the message is about. */
      readonly traceparent: string | null;
      /** By the clock of the database. */
      readonly nowMs: number;
    }
  /** The target was deleted or disabled, or another job delivers: there is nothing to do. */
  | { readonly kind: 'gone' };

/** `failed`: permanently. `gone`: permanently, and the endpoint wants no more requests. */
export type DeliveryVerdict = 'delivered' | 'retry' | 'failed' | 'gone';

/** How one request of a delivery ended. */
export type AttemptOutcome = {
  readonly verdict: DeliveryVerdict;
  readonly status: number | null;
  readonly errorCode: string | null;
  readonly durationMs: number;
  /** The beginning of the response, without control characters and secrets. */
  readonly answer: string | null;
  readonly retryAfterMs: number | null;
};

export type DeliverySettings = {
  /** One request, from the DNS lookup to the last byte of the response. */
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly backoff: { readonly initialMs: number; readonly maxMs: number };
  /** Whether a webhook must accept a test message before its first event, and an origin one callback before others are sent to it. */
  readonly verifies: boolean;
};

const LEASE_MS = 30_000;
/** Time to read the delivery and to write the outcome, in addition to the requests. */
const SLACK_MS = 15_000;
/** The delivery row keeps the facts, so the job can be pruned soon. */
const RETENTION_MS = 3_600_000;

/** The policy of delivery jobs. They end when delivered or out of attempts, so they have no lifetime. */
export function deliveryPolicy({ timeoutMs, maxRetries, backoff }: DeliverySettings): Policy {
  return {
    ...PROFILES.gopherqueue,
    profile: DELIVERY_PROFILE,
    maxAttempts: maxRetries + 1,
    // The test message and the event.
    timeoutMs: 2 * timeoutMs + SLACK_MS,
    leaseMs: LEASE_MS,
    lifetimeMs: null,
    backoff: {
      ...PROFILES.gopherqueue.backoff,
      strategy: 'EXPONENTIAL',
      initialDelayMs: backoff.initialMs,
      maxDelayMs: backoff.maxMs,
    },
    retentionMs: RETENTION_MS,
  };
}
