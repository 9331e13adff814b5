import { type Policy, PROFILES } from './policy.ts';

/** The job type, queue and org of deliveries. */
export const DELIVERY_TYPE = 'webhook.deliver';
export const DELIVERY_QUEUE = 'q:notifications';
export const DELIVERY_PROFILE = 'webhooks';
export const SYSTEM_ORG_ID = '00000000-0000-4000-8000-000000000001';

export type DeliverySettings = {
  /** Of one request, from the look-up of the name to the last byte of the answer. */
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly backoff: { readonly initialMs: number; readonly maxMs: number };
};

const LEASE_MS = 30_000;
/** What an attempt needs beside its request: reading the delivery and writing the outcome. */
const SLACK_MS = 15_000;
/** The delivery keeps what there is to know, so its job need not stay. */
const RETENTION_MS = 3_600_000;

/** The policy of the jobs that deliver. They live until they are delivered or out of attempts. */
export function deliveryPolicy({ timeoutMs, maxRetries, backoff }: DeliverySettings): Policy {
  return {
    ...PROFILES.gopherqueue,
    profile: DELIVERY_PROFILE,
    maxAttempts: maxRetries + 1,
    timeoutMs: timeoutMs + SLACK_MS,
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
