export type * from './api-types.ts';
export type { QuotaError as Quota } from './api-types.ts';
export { MillraceClient } from './client.ts';
export { ApiError, NotFoundError, QuotaError, ValidationError } from './errors.ts';
export type { FollowedEvent, FollowOptions } from './follow.ts';
export type { CallOptions, ClientOptions } from './transport.ts';
export {
  type VerifyWebhookParams,
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  type WebhookRefusal,
  WebhookVerificationError,
} from './verify-webhook.ts';
export type { WaitOptions } from './wait-for-job.ts';
